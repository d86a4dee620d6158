// SPDX-License-Identifier: Apache-2.0
// The scripts of named shells; see named_shell.h. They need bash and coreutils only.
#include "mcp-server/tools/run/named_shell.h"

#include "mcp-server/tools/run/background.h"

// $1 is the name of the shell. The file `keeper` has the pid of its keeper, and when that process
// started, because another process may have the pid later. `lives` sets `keeper` to the pid.
#define PLACE                                                                                  \
    "t=${CUBBY_COMMANDS:-/tmp/.cubby} s=$t/shells-$EUID d=$s/$1\n"                             \
    "now() { ms=${EPOCHREALTIME/[.,]/}; ms=${ms%???}; }\n"                                     \
    "claim() { set -C; { : >\"$d/$1.taken\"; } 2>/dev/null; set -- $?; set +C; return $1; }\n" \
    "start_of() {\n"                                                                           \
    "    local line\n"                                                                         \
    "    { read -r line <\"/proc/$1/stat\"; } 2>/dev/null || return 1\n"                       \
    "    set -- ${line##*) }\n"                                                                \
    "    start=${20}\n"                                                                        \
    "}\n"                                                                                      \
    "lives() {\n"                                                                              \
    "    local start= began=\n"                                                                \
    "    [ -O \"$s\" ] && [ ! -L \"$s\" ] && { read -r keeper began <\"$d/keeper\"; } "        \
    "2>/dev/null "                                                                             \
    "&&\n"                                                                                     \
    "        start_of \"$keeper\" && [ \"$start\" = \"$began\" ]\n"                            \
    "}\n"

// The shell. $2 is the pid of its keeper: the names of the keeper's FIFOs end with it, so a shell
// whose keeper was killed meets no other keeper, and ends. It runs each command by eval at its top
// level, so that cd, variables, functions and options last. Where bash would end (exit, set -e, an
// interrupt, a break out of two loops), it tells the keeper, saves its state and starts again in
// the same process. Traps do not outlive a command, nor `set -e` such an end.
//
// A command may redefine any name: hence `builtin` and [[ ]], and one compound command, which bash
// has read whole before an alias can change it. The keeper's descriptors are not in the shell. But
// the processes and files of the call belong to the same user, so a command can find the key, and
// forge the end of its own call. That harms this call only.
//
// The command is the first thing in the loop, because bash counts the lines of an eval from the
// line that it stands in, and its errors would otherwise name lines that the command does not have.
const char SHELL_LOOP[] =
    "{ __cubby_run= __cubby_d=; while [[ 1 ]]; do if [[ $__cubby_run ]]; then __cubby_run=; "
    "for __cubby_i in 1; do { " // for a command that says `break`
    "builtin eval \"$(<\"$__cubby_c.before\")\" && builtin eval \"$(<\"$__cubby_c.command\")\"; } "
    ">\"$__cubby_c.out\" 2>\"$__cubby_c.err\" </dev/null; done; __cubby_r=$?\n"
    "elif [[ ! $__cubby_d ]]; then\n"
    "__cubby_d=$1 __cubby_k=$2\n"
    "shift 2\n"
    "[[ ! -e $__cubby_d/state ]] || builtin . \"$__cubby_d/state\" >/dev/null 2>&1\n"
    "__cubby_id= __cubby_r=0\n"
    "__cubby_exit() {\n"
    "    builtin local \"code=$?\" word=\n"
    "    builtin trap : INT PIPE TERM HUP\n"
    "    builtin set +eux\n"
    "    [[ -p $__cubby_d/next.$__cubby_k ]] || { builtin trap - EXIT; builtin exit \"$code\"; "
    "}\n"
    "    {\n" // functions may need the options, and aliases would change them
    "        builtin declare -p && builtin shopt -p && builtin declare -f && builtin alias -p "
    "&&\n"
    "            builtin printf 'builtin cd -- %q\\n' \"$PWD\" && builtin umask -p\n"
    "    } 2>/dev/null >|\"$__cubby_d/state\" || [[ ! -p $__cubby_c.err ]] ||\n"
    "        builtin echo \"cubby: not all variables and functions of this session last, "
    "because\" \\\n"
    "            \"$__cubby_d/state cannot be written. Is the disk full?\" "
    "1<>\"$__cubby_c.err\"\n"
    "    builtin echo \"exit $__cubby_id $code\" 1<>\"$__cubby_d/events.$__cubby_k\"\n"
    "    while [[ $word != ok ]]; do\n" // no interrupt comes later
    "        IFS= builtin read -r word <\"$__cubby_d/next.$__cubby_k\" || {\n"
    "            builtin trap - EXIT\n"
    "            builtin exit\n"
    "        }\n"
    "    done\n"
    "    builtin exec </dev/null >/dev/null 2>&1\n" // below: the same process
    "    builtin exec /bin/bash -c \"$BASH_EXECUTION_STRING\" bash \"$__cubby_d\" "
    "\"$__cubby_k\"\n"
    "}\n"
    "[[ ! -p $__cubby_d/events.$__cubby_k ]] ||\n"
    "    builtin echo \"ready $$\" 1<>\"$__cubby_d/events.$__cubby_k\"\n"
    "fi\n" // a command that says `continue 2` arrives here, too
    "    builtin trap __cubby_exit EXIT\n"
    "    builtin trap 'builtin trap : INT PIPE TERM HUP; builtin exit 129' HUP\n"
    "    builtin trap 'builtin trap : INT PIPE TERM HUP; builtin exit 130' INT\n"
    "    builtin trap 'builtin trap : INT PIPE TERM HUP; builtin exit 143' TERM\n"
    "    builtin trap 'builtin trap : INT PIPE TERM HUP; builtin exit 141' PIPE\n" // no client
    "    if [[ $__cubby_id && -p $__cubby_d/events.$__cubby_k ]]; then\n"
    "        builtin echo \"done $__cubby_id $__cubby_r\" 1<>\"$__cubby_d/events.$__cubby_k\"\n"
    "    fi\n"
    "    [[ -p $__cubby_d/next.$__cubby_k && -d /proc/$__cubby_k ]] &&\n"
    "        IFS= builtin read -r __cubby_id <\"$__cubby_d/next.$__cubby_k\" || {\n"
    "        builtin trap - EXIT\n" // the keeper is gone
    "        builtin exit \"$__cubby_r\"\n"
    "    }\n"
    "    __cubby_c=$__cubby_d/$__cubby_id __cubby_r=0 __cubby_run=1\n"
    "done\n"
    "}\n";

// The keeper. $2 is SHELL_LOOP, $3 the most seconds that its start waits for others. It prints an
// empty line once calls may come. Everything that happens is a line in the FIFO `events.PID`: "run
// ID DEADLINE" of a call, "shell PID", "ready PID", "done ID CODE", "exit ID CODE" and "dead CODE"
// of the shell, and "gone ID" when the client of the running call has ended. After "exit" the shell
// waits for "ok", so an interrupt never meets it without its traps. `at` is the shell's state:
// none, start, ready, or ending, when the keeper has killed it before it was ready.
//
// A shell first reads the user's profile, which may wait or end the shell. Until the shell is ready
// the keeper gives it no command. A call whose time ends before that is not run ("late"), and if no
// other call waits, the shell is killed. A call that comes before the end of that shell waits for
// the next one. A call whose shell ends before it is ready is not run ("start"), and the next call
// starts another shell.
//
// An interrupt is SIGINT to the process group of the shell, in which background jobs ignore it. Two
// seconds later the keeper kills the newest child of the shell, which is the one that the shell
// waits for, and then the next ones; five seconds later it kills the shell. Children that the shell
// had before the call are background jobs of earlier calls and stay. Their start times, in ticks of
// 10 ms, do not tell them from those of the call, so the keeper lists them when it takes a call.
const char SHELL_KEEP[] = PLACE
    "text=$2\n" BACKGROUND_MAKE_PLACE "[ -d \"$s\" ] || why=$(mkdir -m 700 -- \"$s\" 2>&1)\n"
    "if [ ! -d \"$s\" ]; then echo \"$why\" >&2; exit 39; fi\n"
    "if [ -L \"$s\" ] || [ ! -O \"$s\" ]; then\n"
    "    echo \"$s is another user's\" >&2\n"
    "    exit 39\n"
    "fi\n"
    "exec 9>\"$s/.lock\" || exit 39\n"
    "flock -w $3 9 || exit 45\n"      // others are starting shells
    "if lives; then echo; exit; fi\n" // another call was faster
    "rm -rf -- \"$d\"\n"
    "set -- \"$s\"/*/\n"
    "[ $# -lt 32 ] || exit 41\n"
    "start_of $$ && self=\"$$ $start\" && mkdir -- \"$d\" && mkfifo -- \"$d/events.$$\" &&\n"
    "    echo \"$self\" >\"$d/keeper\" || exit 39\n"
    "exec 3<>\"$d/events.$$\" 9>&-\n"
    "echo\n"
    "exec </dev/null >/dev/null 2>&1\n"
    "shopt -s nullglob\n"
    "call= key= given= watch= deadline= step=0 why=- lost=- new=new at=none queue=()\n"
    "start_shell() {\n"
    "    rm -f -- \"$d/next.$$\" \"$d/state\"\n"
    "    mkfifo -- \"$d/next.$$\" && exec 4<>\"$d/next.$$\" || exit\n" // the directory is gone
    "    shell= new=new at=start\n"
    "    (\n"
    "        trap : INT TERM HUP\n" // the shell would inherit ""
    "        set -m\n"              // a process group of its own
    "        /bin/bash -l -c \"$text\" bash \"$d\" $$ 3<&- &\n"
    "        echo \"shell $!\" >&3\n"
    "        wait $!\n"
    "        echo \"dead $?\" >&3\n"
    "    ) 4<&- 5<&- 8<&- 9<&- &\n"
    "}\n"
    "give() {\n" // the call to the shell
    "    local up\n"
    "    read -r since up </proc/uptime\n"
    "    since=$((10#${since/.})) earlier=\n"
    "    { read -r earlier <\"/proc/$shell/task/$shell/children\"; } 2>/dev/null\n"
    "    echo begun >&5\n" // before the shell can have the call
    "    exec 5<&-\n"
    "    given=1\n"
    "    echo \"$call\" >&4\n"
    "}\n"
    "take() {\n"
    "    while [ ! \"$call\" ] && [ ${#queue[@]} -gt 0 ]; do\n"
    "        set -- ${queue[0]}\n"
    "        queue=(\"${queue[@]:1}\")\n"
    "        claim $1 || { rm -f -- \"$d/$1\".*; continue; }\n" // given up
    "        read -r key <\"$d/$1.key\"\n"
    "        call=$1 deadline=$2 step=0 why=- lost=- given=\n"
    "        exec 7<>\"$d/$1.out\" 8>\"$d/$1.out\" 7<&-\n" // 8 does not wait, as 7 reads
    "        exec 7<>\"$d/$1.err\" 9>\"$d/$1.err\" 7<&- 5<>\"$d/$1.begun\"\n"
    "        if [ ! -p /dev/fd/5 ] || [ ! -p /dev/fd/8 ] || [ ! -p /dev/fd/9 ]; then\n"
    "            rm -f -- \"$d/$1\".*\n" // the client has given up, or its files were removed
    "            exec 5<&- 8>&- 9>&-\n"
    "            call= key=\n"
    "            continue\n"
    "        fi\n"
    "        (\n"
    "            exec 4<&- 5<&- 8>&- 9>&- 7<>\"$d/$1.alive\" 6<\"$d/$1.alive\" 7<&-\n"
    "            read -r -u 6\n"
    "            echo \"gone $1\" >&3\n"
    "        ) &\n"
    "        watch=$!\n"
    "        case $at in ready) give;; none) start_shell;; esac\n"
    "    done\n"
    "}\n"
    // The client of a call that no shell has got may not have opened the FIFOs yet. It would miss
    // the line, so the files stay until it has ended.
    "tell_late() {\n"
    "    (\n"
    "        : >\"$d/$call.out\"\n" // waits for the client
    "        echo \"$1\" >&8\n"
    "        : >\"$d/$call.err\"\n"
    "        echo \"$1\" >&9\n"
    "    ) 3<&- 4<&- 5<&- &\n"
    "    exec 3<&- 4<&- 5<&- 8>&- 9>&- 7<>\"$d/$call.alive\" 6<\"$d/$call.alive\" 7<&-\n"
    "    read -r -u 6\n"
    "    kill $!\n"
    "    rm -f -- \"$d/$call\".*\n"
    "}\n"
    "finish() {\n"
    "    local names=(\"$s\"/*/)\n"
    "    local end=\n"
    "    printf -v end '\\1cubby %s %s %s %s %s %s' \"$key\" $1 $why $new $lost "
    "\"${names[*]#\"$s/\"}\"\n"
    "    if [ ! \"$given\" ]; then\n"
    "        tell_late \"$end\" &\n"
    "    elif [ \"$key\" ]; then\n"
    "        (echo \"$end\" >&8; echo \"$end\" >&9) 3<&- 4<&- &\n"
    "    fi\n"
    "    kill $watch\n"
    "    exec 5<&- 8>&- 9>&-\n"
    "    [ ! \"$given\" ] || rm -f -- \"$d/$call\".* &\n"
    "    call= key=\n"
    "    [ $at != ready ] || new=-\n"
    "}\n"
    "end_tree() {\n"
    "    local f line\n"
    "    kill -STOP $1\n"
    "    for f in /proc/[0-9]*/stat; do\n"
    "        { read -r line <\"$f\"; } 2>/dev/null || continue\n"
    "        set -- $1 ${line%% *} ${line##*) }\n"
    "        [ $4 != $1 ] || end_tree $2\n"
    "    done\n"
    "    kill -KILL $1\n"
    "}\n"
    "end_newest() {\n"
    "    local f line age best= born=$((since * 10000000))\n"
    "    for f in /proc/[0-9]*/stat; do\n"
    "        { read -r line <\"$f\"; } 2>/dev/null || continue\n"
    "        set -- ${line%% *} ${line##*) }\n"
    "        [[ ${21} -gt $since || \" $earlier \" != *\" $1 \"* ]] || continue\n"
    "        age=$((${21} * 10000000 + $1))\n"
    "        [ $3 = $shell ] && [ $2 != Z ] && [ $age -gt $born ] && best=$1 born=$age\n"
    "    done\n"
    "    [ ! \"$best\" ] || end_tree $best\n"
    "    [ $step -lt 16 ] || kill -KILL $shell\n"
    "}\n"
    "interrupt() {\n"
    "    now\n"
    "    if [ $step = 0 ]; then\n"
    "        kill -INT -- -$shell\n"
    "        deadline=$((ms + 2000))\n"
    "    else\n"
    "        end_newest\n"
    "        deadline=$((ms + 200))\n"
    "    fi\n"
    "    step=$((step + 1))\n"
    "}\n"
    "start_shell\n"
    "while :; do\n"
    "    take\n"
    "    if [ ! \"$call\" ] && [ $why = late ] && [ \"$shell\" ]; then\n"
    "        [ $at != start ] || ! kill -KILL -- -$shell || at=ending\n"
    "        why=-\n"
    "    fi\n"
    "    if [ \"$call\" ]; then\n"
    "        now\n"
    "        left=$((deadline - ms))\n"
    "        if [ $left -le 0 ]; then\n"
    "            if [ $at != ready ]; then why=late; finish 0; continue; fi\n"
    "            [ $step -gt 0 ] || why=timeout\n"
    "            interrupt\n"
    "            continue\n"
    "        fi\n"
    "        printf -v left %d.%03d $((left / 1000)) $((left % 1000))\n"
    "        read -r -t $left -u 3 what id code || continue\n"
    "    else\n"
    "        read -r -u 3 what id code\n"
    "    fi\n"
    "    case $what in\n"
    "    run) queue+=(\"$id $code\");;\n"
    "    shell) shell=$id;;\n"
    "    ready)\n"
    "        shell=$id\n"
    "        if [ $at = start ]; then at=ready; [ ! \"$call\" ] || give; fi\n"
    "        ;;\n"
    "    done) [ \"$id\" != \"$call\" ] || finish $code;;\n"
    "    exit)\n"
    "        [ \"$id\" != \"$call\" ] || finish $code\n"
    "        echo ok >&4\n"
    "        [ ! \"$call\" ] || echo \"$call\" >&4\n" // again, as the shell may have dropped it
    "        ;;\n"
    "    gone) [ \"$id\" != \"$call\" ] || [ $step != 0 ] || { why=gone; deadline=0; };;\n"
    "    dead)\n"
    "        if [ $at != ending ]; then\n"
    "            lost=lost\n"
    "            [ $at = ready ] || why=start\n"
    "            [ ! \"$call\" ] || finish $id\n"
    "        fi\n"
    "        [ \"$(<\"$d/keeper\")\" = \"$self\" ] || exit\n" // the directory is gone, or another's
    "        if [ $at = ready ] || [ \"$call\" ]; then start_shell; else at=none shell=; fi\n"
    "        ;;\n"
    "    esac\n"
    "done\n";

// A call. $2 is its id, $3 its key, $4 its time in ms, $5 what runs before the command, which runs
// only if that succeeds, $6 the command. Its output goes through FIFOs to stdout and stderr. They
// outlive the call as long as a background job holds them, so that the job can go on writing.
//
// The process that makes the file `taken` owns the call: the keeper, to run the command, or the
// client, to give it up. So after exit 43 and 44 no shell runs the command. The keeper opens the
// FIFOs, and writes to the FIFO `begun` before it gives the call to the shell. If it does not open
// them, or closes them without that, the files were removed, or the keeper ended at that moment.
// The client then removes the file that has the command, and looks into `begun` once more. If it is
// empty, no shell has read the file and none can, and the client exits with 46. After exit 1 the
// command may have run. The client holds `begun` open, so a removal of the files hides nothing.
const char SHELL_CALL[] =
    PLACE "lives || exit 43\n"
          "id=$2 c=$d/$2 first=$keeper\n"
          "files=(\"$c\".{command,before,key,out,err,alive,begun})\n"
          "now\n"
          "deadline=$((ms + $4))\n"
          "mkfifo -- \"$c\".{out,err,alive,begun} && echo \"$3\" >\"$c.key\" &&\n"
          "    printf '%s\\n' \"$5\" >\"$c.before\" && printf '%s\\n' \"$6\" >\"$c.command\" || {\n"
          "    rm -f -- \"${files[@]}\"\n"
          "    exit 39\n"
          "}\n"
          "exec 5<>\"$c.begun\" 6<>\"$c.alive\"\n"
          "cat <\"$c.out\" 5<&- 6<&- &\n"
          "a=$!\n"
          "cat <\"$c.err\" >&2 5<&- 6<&- &\n"
          "b=$!\n"
          "nap() { read -r -t 0.2 -u 6; }\n" // nobody writes there
          "give_up() {\n"
          "    kill $a $b\n"
          "    rm -f -- \"${files[@]}\"\n" // the keeper removes .taken
          "    exit $1\n"
          "}\n"
          "keep_it() {\n" // false: the keeper has it, or the files are another keeper's
          "    claim $id || return\n"
          "    [ -e \"$c.alive\" ] || { rm -f -- \"$c.taken\"; return 1; }\n"
          "}\n"
          "open_of() {\n" // a cat that waits for its FIFO is a bash still
          "    local name=\n"
          "    { read -r name <\"/proc/$1/comm\"; } 2>/dev/null\n"
          "    if [ \"$name\" ]; then [ \"$name\" = cat ]; else wait $1; fi\n"
          "}\n"
          "is_open() { open_of $a && open_of $b; }\n"
          "begun() { read -r -t 0 -u 5; }\n"
          "echo \"run $id $deadline\" 1<>\"$d/events.$keeper\"\n" // <> does not wait for a reader
          "while [ -e \"$c.alive\" ] && [ ! -e \"$c.taken\" ]; do\n"
          "    lives && [ $keeper = $first ] || { ! keep_it || give_up 43; break; }\n"
          "    now\n"
          "    [ $ms -le $deadline ] || ! keep_it || give_up 44\n"
          "    nap\n"
          "done\n"
          "i=0\n"
          "until is_open || begun || [ $i -ge 10 ]; do nap; i=$((i + 1)); done\n"
          "if is_open || begun; then wait $a $b; a= b=; fi\n"
          "begun || {\n"
          "    rm -f -- \"${files[@]}\"\n" // the command is the first
          "    begun || give_up 46\n"
          "    give_up 1\n"
          "}\n";
