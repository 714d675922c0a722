/**
 * @module Generates docs/configuration.md from the settings, docs/commands.md from the commands, the table of docs/mcp.md
 * from the tools, table-facts.json from what each `tables.ts` states about its tables, and the types of src/client from
 * the routes. `bun scripts/reference.ts` writes them; test/reference.test.ts checks that they are up to date.
 */
import { tmpdir } from 'node:os'
import { Glob } from 'bun'
import { type Argument, type Command, Help, type Option } from 'commander'
import { createProgram } from '#app/cli/program.ts'
import { loadConfig, SETTING_GROUPS } from '#app/settings.ts'
import { addBenchCommand } from '#bench/sending.ts'
import { TOOLS } from '#features/drop-in/mcp/tools.ts'
import { readTableFacts } from '#platform/db/columns.ts'
import type { SettingReport } from '#platform/settings/config.ts'
import { generateClient } from './client.ts'
import { formatFacesPage } from './faces.ts'

const GENERATED = '<!-- Written by `bun scripts/reference.ts`; do not edit by hand. -->'

/** Escapes text for a table cell. */
const formatCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

const formatTable = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`.replaceAll('|  |', '| |')).join('\n')

export const toSentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

const CONFIGURATION_INTRO = `# Configuration

${GENERATED}

Every setting has a default. Set it in one of two places; the first wins:

1. the environment variable, such as \`TASSIS_HTTP_ADDR=127.0.0.1:8080\`; an empty one counts as not set
2. the TOML file that the variable \`TASSIS_CONFIG\` names, if it is set: the same name in lower case without the prefix,
   such as \`http_addr = "127.0.0.1:8080"\`. A name can be split into a table and the rest: \`addr\` in \`[http]\`
   is \`http_addr\`.

If a value is not allowed or a setting is unknown, Tassis prints one sentence and exits with code 2.
\`tassis config\` prints every setting, its value and where it came from; \`--explain\` also prints what is allowed.

Sizes take a unit: \`64KiB\`, \`512MiB\`, \`20GiB\`. Lists are separated by commas, or are arrays in the TOML file.`

/** Formats docs/configuration.md: every setting, by what an operator wants to do. */
export function formatConfigurationPage(): string {
  const byTopic = Map.groupBy(loadConfig({}).report, ({ topic }) => topic)
  const sections = SETTING_GROUPS.map(({ topic, guide }) =>
    [
      `## ${topic}`,
      `Explained in [${guide}](${guide}).`,
      formatTable(['Variable', 'Default', 'Meaning', 'Allowed'], (byTopic.get(topic) ?? []).map(toSettingRow)),
    ].join('\n\n'),
  )
  return `${[CONFIGURATION_INTRO, ...sections].join('\n\n')}\n`
}

function toSettingRow({ variable, value, setting: { doc, allowed, fallbackDoc } }: SettingReport): string[] {
  return [`\`${variable}\``, fallbackDoc ?? (value === '' ? '' : `\`${value}\``), formatCell(doc), formatCell(allowed)]
}

/** An argument or option with its description. */
export type Parameter = readonly [term: string, meaning: string]

/** Options that many commands have: named behind the description of a command, explained once. */
const SHARED_OPTIONS: readonly Parameter[] = [
  ['--json', 'print JSON'],
  ['--account <id|name>', 'the account; required only if there are several'],
  ['--yes', 'do not ask'],
]

const formatParameters = (parameters: readonly Parameter[]): string =>
  parameters.map(([term, meaning]) => `- \`${term}\`: ${meaning}`).join('\n')

const COMMANDS_INTRO = `# Commands

${GENERATED}

Commands talk to the running service over \`admin.sock\` in the data directory (\`TASSIS_DATA_DIR\`), or open the directory
themselves when no service runs. Each command prints its own help with \`--help\`. If the service does not respond within 10
seconds, a command ends and says so.

Options in brackets behind a description mean the same for every command:

${formatParameters(SHARED_OPTIONS)}

JSON is for programs, with names in snake_case: what the API answers. A list is \`{"data": [...]}\`; with
\`"has_more": true\`, a higher \`--limit\` shows more. Everything else is one object, mostly in \`data\`; \`tassis send\`
prints one a line.

Exit codes:

- 0: done
- 1: refused, failed, or a check found problems; also a data directory or port that another process uses, because a later
  attempt may succeed
- 2: wrong usage, a wrong setting, or a data directory that is missing, belongs to another user or was written by another
  version: nothing was done, and the same command fails again
- 130: ended by Ctrl-C; what it had already done stays

Errors are one sentence on standard error; with \`--json\` one line,
\`{"error": {"code": "email_not_found", "message": "..."}}\`.

Times such as \`--since\` are in UTC: \`2h\`, \`3 days ago\`, \`today\`, \`yesterday\`, \`14:30\` (the last one), \`2026-11-21\` or
\`2026-11-21T14:30Z\`.`

const help = new Help()

/** Lists the commands of a program or group, without hidden ones and `help`. */
export const listVisibleCommands = (command: Command): Command[] =>
  help.visibleCommands(command).filter((known) => known.name() !== 'help')

/** Formats docs/commands.md: every command of the program, one section per group. */
export function formatCommandsPage(): string {
  const groups = listVisibleCommands(createProgram([], addBenchCommand))
  const overview = groups.map((group) => {
    // As GitHub derives it from the heading.
    const anchor = formatUsage(group)
      .replace(/[<>[\]|]/g, '')
      .replaceAll(' ', '-')
    return [`[\`tassis ${group.name()}\`](#${anchor})`, formatCell(group.description())]
  })
  const sections = groups.flatMap((group) => [
    // What only groups others is described in the overview.
    listVisibleCommands(group).length > 0 && listParameters(group).length === 0
      ? `## \`${formatUsage(group)}\``
      : formatCommand(group, '##'),
    ...listVisibleCommands(group).map((command) => formatCommand(command, '###')),
  ])
  return `${[COMMANDS_INTRO, formatTable(['Command', 'Does'], overview), ...sections].join('\n\n')}\n`
}

/** How a command is called, without its options; of a group, its name. */
export const formatUsage = (command: Command): string =>
  command.commands.length > 0 ? `tassis ${command.name()}` : help.commandUsage(command).replace(' [options]', '')

const isShared = ([term, meaning]: Parameter): boolean =>
  SHARED_OPTIONS.some(([sharedTerm, sharedMeaning]) => term === sharedTerm && meaning === sharedMeaning)

function formatCommand(command: Command, heading: string): string {
  const parameters = listParameters(command)
  const shared = parameters.filter(isShared).map(([term]) => `\`${term.replace(/ .*/, '')}\``)
  const listed = parameters.filter((parameter) => !isShared(parameter))
  return [
    `${heading} \`${formatUsage(command)}\``,
    `${toSentence(command.description())}${shared.length > 0 ? ` (${shared.join(', ')})` : ''}`,
    ...(listed.length > 0 ? [formatParameters(listed)] : []),
  ].join('\n\n')
}

export const listParameters = (command: Command): Parameter[] => [
  ...command.registeredArguments.map(
    (argument): Parameter => [
      help.argumentTerm(argument),
      describeDefault(help.argumentDescription(argument), argument),
    ],
  ),
  ...help
    .visibleOptions(command)
    .filter((option) => option.long !== '--help')
    .map(
      (option): Parameter => [
        help.optionTerm(option),
        `${option.mandatory ? 'required: ' : ''}${describeDefault(help.optionDescription(option), option)}`,
      ],
    ),
]

/** Replaces a default that depends on the machine with a description. */
const describeDefault = (description: string, { defaultValue }: Argument | Option): string =>
  defaultValue === tmpdir()
    ? description.replace(JSON.stringify(tmpdir()), "the system's folder for temporary files")
    : description

const TOOL_TABLE = /(?<=^<!-- The table is written by .*\n\n)(\|.*\n)+/m

/** Returns docs/mcp.md with a row for each tool: its scopes, its effect, and the first sentence of its description. */
export function withToolTable(page: string): string {
  if (!TOOL_TABLE.test(page)) throw new Error('docs/mcp.md has no table of tools')
  const rows = TOOLS.map(({ name, scopes, effect, description }) => [
    `\`${name}\``,
    scopes.map((scope) => `\`${scope}\``).join(', '),
    effect,
    formatCell(description.replace(/(?<=\.) .*/s, '')),
  ])
  return page.replace(TOOL_TABLE, () => `${formatTable(['Tool', 'Scopes', 'Effect', 'What it does'], rows)}\n`)
}

const ROOT = new URL('../', import.meta.url).pathname
export const CLIENT = `${ROOT}src/client/`
export const TABLE_FACTS_FILE = `${ROOT}src/features/core/app/table-facts.json`

/** Formats the facts of all tables, one table a line. */
export async function formatTableFacts(): Promise<string> {
  const lines: string[] = []
  for (const file of [...new Glob('src/features/*/*/tables.ts').scanSync(ROOT)].sort())
    for (const [table, facts] of readTableFacts(await import(ROOT + file))) {
      if (!facts) throw new Error(`${file} does not state the facts of ${table}: add describeTable(...) below it`)
      lines.push(`  ${JSON.stringify(table)}: ${JSON.stringify(facts)}`)
    }
  return `{\n${lines.join(',\n')}\n}\n`
}

if (import.meta.main) {
  const docs = `${ROOT}docs/`
  await Bun.write(TABLE_FACTS_FILE, await formatTableFacts())
  await Bun.write(`${docs}configuration.md`, formatConfigurationPage())
  await Bun.write(`${docs}commands.md`, formatCommandsPage())
  await Bun.write(`${docs}faces.md`, await formatFacesPage())
  await Bun.write(`${docs}mcp.md`, withToolTable(await Bun.file(`${docs}mcp.md`).text()))
  for (const [file, text] of Object.entries(await generateClient())) await Bun.write(`${CLIENT}${file}`, text)
}
