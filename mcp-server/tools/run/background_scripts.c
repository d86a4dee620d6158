// SPDX-License-Identifier: Apache-2.0
// Scripts for background commands. They need bash and coreutils only. Starting a program costs more
// than all that the shell does itself, so they start few.
#include "mcp-server/tools/run/background.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define SEGMENT  TEXT(BACKGROUND_SEGMENT)
#define KEPT     TEXT(BACKGROUND_KEPT)

#define PLACE "t=${CUBBY_COMMANDS:-/tmp/.cubby} d=$t/$1 seg=" SEGMENT " kept=" KEPT "\n"

// $1 id, $6 tenths of a second to wait for it to be known (0 if it is not given). Exit 40 with a
// list of the known commands. `nap` waits on an empty stdin.
#define HEAD                                                                                    \
    PLACE "unknown() {\n"                                                                       \
          "    for k in \"$t\"/*/command; do\n"                                                 \
          "        { read -r -N 60 c <\"$k\"; [ \"$c\" ]; } 2>/dev/null || continue\n"          \
          "        i=${k%/command}\n"                                                           \
          "        if [ -e \"$i/exit\" ]; then s=ended; else s=running; fi\n"                   \
          "        printf '%s (%s): %s\\n' \"${i##*/}\" $s \"${c%%$'\\n'*}\"\n"                 \
          "    done\n"                                                                          \
          "    exit 40\n"                                                                       \
          "}\n"                                                                                 \
          "nap() { read -rt \"$1\"; [ $? -gt 128 ] || sleep \"$1\"; }\n"                        \
          "two() { a= b=; { read -r a b <\"$d/pid\"; } 2>/dev/null; }\n"                        \
          "ended() { { read -r code <\"$d/exit\"; } 2>/dev/null || { code=-1; return 1; }; }\n" \
          "wait=${6:-0}\n"                                                                      \
          "until [ -e \"$d/command\" ]; do\n"                                                   \
          "    [ $wait -gt 0 ] || unknown\n"                                                    \
          "    nap 0.1\n"                                                                       \
          "    wait=$((wait - 1))\n"                                                            \
          "done\n"

// The keeper. It prints an empty line once the command can be found by its id; every running
// command is known. Job control (set -m) gives the command its own process group and leaves SIGINT
// and stdin as they are. Only the command holds its stdin open. Its output goes through a pipe, so
// that the kept part can be bounded. The first segment also goes to the keeper's stdout, for a
// client that still listens. Processes that the command leaves behind may hold the pipe. The end is
// recorded all the same, at most a second later, once the content of the pipe has been kept.
const char BACKGROUND_RUN[] = PLACE
    "cmd=$2\n" BACKGROUND_MAKE_PLACE "mkdir -- \"$d\" || exit 39\n"
    "printf '%s\\n' \"$cmd\" >\"$d/command\" || { rm -rf -- \"$d\"; exit 39; }\n"
    "echo\n"
    "exec 3>&1\n"
    "exec 4> >(SHELL=/bin/sh exec split -b $seg -d -a 6 --filter='n=${FILE##*.}; o=$((1$n - 2))\n"
    "    case $n in 000000) exec tee -p -- \"$FILE\" >&3;; esac\n"
    "    rm -f -- \"${FILE%.*}.${o#1}\"; exec cat >\"$FILE\"' - \"$d/out.\" >/dev/null 2>&1)\n"
    "keep=$!\n"
    "set -m\n"
    "{ echo \"$BASHPID $$\" >\"$d/pid\"; exec /bin/bash -l -c \"$cmd\"; } >&4 2>&1 3>&- 4>&- &\n"
    "run=$!\n"
    "set +m\n"
    "exec </dev/null >/dev/null 2>&1 3>&- 4>&-\n"
    "set -- \"$t\"/*/\n"
    "if [ $# -ge $kept ]; then\n"
    "    cd -- \"$t\" && ls -1t -I 'shells-*' | tail -n +$kept | while read -r old; do\n"
    "        [ ! -f \"$old/exit\" ] || rm -rf -- \"$old\"\n"
    "    done\n"
    "fi\n"
    "wait $run\n"
    "code=$?\n"
    "i=0\n"
    "while kill -0 $keep && [ $i -lt 50 ]; do sleep 0.02; i=$((i + 1)); done\n"
    "echo $code >\"$d/exit\"\n"
    "exit $code\n";

// $2 cursor, $3 most bytes, $4 tenths of a second to wait, $5 number of bytes after the cursor that
// are too few for an answer while the command runs. A file with a successor is complete and may be
// removed at any time. So the script opens a file before it reports it, and if the file is gone,
// the next one.
const char BACKGROUND_READ[] =
    HEAD "two\n"
         "look() {\n"
         "    state=lost\n"
         "    [ ! -d \"/proc/${b:-none}\" ] || state=running\n"
         "    ! ended || state=ended\n"
         "    first= last= total=0 least=0\n"
         "    for f in \"$d\"/out.[0-9]*; do first=${first:-$f} last=$f; done\n"
         "    [ -e \"$last\" ] || return\n" // a new one may be empty yet
         "    least=$(((1${first##*.} - 1000000) * seg))\n"
         "    size=$(stat -c %s -- \"$last\" 2>/dev/null) || { look; return; }\n"
         "    total=$(((1${last##*.} - 1000000) * seg + size))\n"
         "}\n"
         "enough() { [ $total -gt $((from + few)) ]; }\n"
         "look\n"
         "from=$2 few=$5\n"
         "[ $from -ge 0 ] || from=$((total + from))\n"
         "[ $total -ge $from ] || { nap 0.02; look; }\n" // start_command is told before the file is
         "i=0\n"
         "while [ $state = running ] && ! enough && [ $i -lt $4 ]; do\n"
         "    if [ $i -lt 10 ]; then nap 0.1; i=$((i + 1)); else nap 0.3; i=$((i + 3)); fi\n"
         "    look\n"
         "done\n"
         "if [ $i -gt 0 ] && [ $state = running ]; then nap 0.05; look; fi\n"
         "while :; do\n"
         "    [ $from -ge $least ] || from=$least\n"
         "    [ $from -le $total ] || from=$total\n"
         "    [ $from -lt $total ] || { echo $state $code $from $total; exit 0; }\n"
         "    printf -v f %s/out.%06d \"$d\" $((from / seg))\n"
         "    printf -v g %s/out.%06d \"$d\" $((from / seg + 1))\n"
         "    if { exec 5<\"$f\"; } 2>/dev/null; then break; fi\n"
         "    look\n"
         "done\n"
         "echo $state $code $from $total\n"
         "at=$((from % seg + 1))\n"
         "{ exec 6<\"$g\"; } 2>/dev/null || exec tail -c +$at <&5\n"
         "{ tail -c +$at <&5; cat <&6; } 2>/dev/null | head -c $3\n";

// $2 signal, $3 tenths of a second until KILL. Prints "<1 if it ran> <1 if KILL was needed> <exit
// code or -1>\n". The rest of the group is killed too when the command has ended. Zombies do not
// count.
const char BACKGROUND_STOP[] =
    HEAD "i=0\n"
         "until two; [ \"$b\" ] || [ $i -ge 10 ]; do nap 0.1; i=$((i + 1)); done\n"
         "[ \"$b\" ] || { echo 0 0 -1; exit; }\n"
         "gone() {\n"
         "    kill -0 -- -$a 2>/dev/null || return 0\n"
         "    for f in /proc/[0-9]*/stat; do\n"
         "        { read -r line <\"$f\"; } 2>/dev/null || continue\n"
         "        set -- ${line##*) }\n"
         "        case $3,$1 in $a,[ZX]) ;; $a,*) return 1;; esac\n"
         "    done\n"
         "}\n"
         "signal=$2 grace=$3 ran=1 hard=0\n"
         "! ended || ran=0\n"
         "if kill -0 -- -$a 2>/dev/null; then\n"
         "    kill -$signal -- -$a || gone || exit 1\n"
         "    nap 0.02\n" // most end at once
         "    i=0\n"
         "    until gone || [ $i -ge $grace ]; do nap 0.1; i=$((i + 1)); done\n"
         "    if ! gone; then hard=1; kill -KILL -- -$a; fi\n"
         "fi\n"
         "until ended || [ ! -d /proc/$b ] || [ $i -ge 250 ]; do nap 0.02; i=$((i + 1)); done\n"
         "ended\n"
         "echo $ran $hard $code\n";

const char BACKGROUND_PID[] = HEAD "! ended || exit 41\n"
                                   "two\n"
                                   "[ -d \"/proc/${b:-none}\" ] || exit 41\n"
                                   "echo $b\n";
