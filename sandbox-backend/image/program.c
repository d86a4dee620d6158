// SPDX-License-Identifier: Apache-2.0
// Tells if a file is a program for the guest's kernel.
#include "sandbox-backend/image/program.h"

#include <elf.h>
#include <string.h>

bool program_runs(const void *head, size_t len)
{
    unsigned char bytes[PROGRAM_HEAD] = {0};
    Elf64_Half machine;
    memcpy(bytes, head, len < sizeof bytes ? len : sizeof bytes);
    if (memcmp(bytes, "#!", 2) == 0)
        return true;
    // e_machine has the same place in files of 32 and of 64 bits.
    memcpy(&machine, bytes + offsetof(Elf64_Ehdr, e_machine), sizeof machine);
    if (memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return false;
#if defined(__aarch64__)
    return machine == EM_AARCH64;
#else
    return machine == EM_X86_64 || machine == EM_386;
#endif
}
