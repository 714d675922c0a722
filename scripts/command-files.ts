/** @module Shell completion and the man page of `tassis`, made from its commands as docs/commands.md is. */
import { type Command, Help } from 'commander'
import { createProgram } from '#app/cli/program.ts'
import { toDate } from '#app/version.ts'
import { addBenchCommand } from '#bench/sending.ts'
import { formatUsage, listParameters, listVisibleCommands, toSentence } from './reference.ts'

/** A word that may follow a command, with its meaning. */
type Word = readonly [word: string, meaning: string]

const help = new Help()

const createCommands = (): Command => createProgram([], addBenchCommand)

/** Command with its group, such as `tassis users create` -> its subcommands, choices of arguments, options. */
export function listWords(command: Command = createCommands(), path = 'tassis'): [path: string, words: Word[]][] {
  const commands = listVisibleCommands(command)
  const words: Word[] = [
    ...commands.map((known): Word => [known.name(), known.description()]),
    ...command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices.map((choice): Word => [choice, ''])),
    ...help.visibleOptions(command).flatMap(({ long, description }): Word[] => (long ? [[long, description]] : [])),
  ]
  return [[path, words], ...commands.flatMap((known) => listWords(known, `${path} ${known.name()}`))]
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** What bash and zsh share: the words after each command, and the longest command that was typed. */
const formatTable = (format: (words: readonly Word[]) => string): string =>
  listWords()
    .map(([path, words]) => `    ${quote(path)}) known=(${format(words)}) ;;`)
    .join('\n')

export const formatBash = (): string => `# bash completion of tassis
_tassis() {
  local path=tassis word i
  local -a known
  _tassis_words "$path"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word != -* && " \${known[*]} " == *" $word "* ]] && path+=" $word" && _tassis_words "$path"
  done
  COMPREPLY=($(compgen -W "\${known[*]}" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
_tassis_words() {
  case $1 in
${formatTable((words) => words.map(([word]) => word).join(' '))}
  esac
}
complete -o default -F _tassis tassis
`

export const formatZsh = (): string => `#compdef tassis
_tassis_words() {
  case $1 in
${formatTable((words) => words.map(([word, meaning]) => quote(`${word}:${meaning}`)).join(' '))}
  esac
}
_tassis() {
  local current=tassis word
  local -a known
  _tassis_words "$current"
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word != -* && -n \${(M)known:#$word:*} ]] && current+=" $word" && _tassis_words "$current"
  done
  _describe tassis known || _files
}
_tassis "$@"
`

export const formatFish = (): string => `function __tassis_path
    set -l path tassis
    for word in (commandline -opc)[2..]
        contains -- "$path $word" ${listWords()
          .map(([path]) => quote(path))
          .join(' ')}
        and set path "$path $word"
    end
    echo $path
end
${listWords()
  .flatMap(([path, words]) =>
    words.map(([word, meaning]) => {
      const term = word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${word}`
      return `complete -c tassis -n ${quote(`test (__tassis_path) = "${path}"`)} ${term}${meaning && ` -d ${quote(meaning)}`}`
    }),
  )
  .join('\n')}
`

/** Escapes text for roff. */
const roff = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/`([^`]+)`/g, '\\fB$1\\fR')
    .replaceAll(/^(?=[.'])/gm, '\\&')

/** @param epoch Unix seconds */
export function formatManPage(version: string, epoch: number): string {
  const item = (term: string, meaning: string): string => `.TP\n\\fB${roff(term)}\\fR\n${roff(meaning)}`
  const sections = listVisibleCommands(createCommands()).flatMap((group) => {
    const commands = listVisibleCommands(group)
    const own = commands.length === 0 || listParameters(group).length > 0 ? [group] : []
    return [...own, ...commands].map((command) =>
      [
        `.SS "${roff(formatUsage(command))}"\n${roff(toSentence(command.description()))}`,
        ...listParameters(command).map(([term, meaning]) => item(term, meaning || term)),
      ].join('\n'),
    )
  })
  return `.TH TASSIS 1 "${toDate(epoch)}" "tassis ${roff(version)}"
.SH NAME
tassis \\- transactional email service in one process
.SH SYNOPSIS
.B tassis
.I command
.RI [ arguments "] [" options ]
.SH DESCRIPTION
Commands talk to the running service, or open its data when none runs. \\fBtassis \\-\\-help\\fR lists them, \\fB\\-\\-help\\fR after a
command shows its own.
.SH COMMANDS
${sections.join('\n')}
.SH ENVIRONMENT
Every setting is a variable TASSIS_* too, which overrides the file; \\fBtassis config \\-\\-explain\\fR lists them.
.SH FILES
${item('/etc/tassis/tassis.toml', 'Settings of the service, which TASSIS_CONFIG names.')}
${item('/var/lib/tassis', 'Its data: mail, keys, backups. Neither removing nor purging the package deletes them.')}
.SH EXIT STATUS
${item('0', 'Done.')}
${item('1', 'Refused, failed, or a check found problems.')}
${item('2', 'Wrong usage, a wrong setting, or unusable data: nothing was done.')}
${item('130', 'Ended by Ctrl-C.')}
`
}
