/** @module `tassis templates import`: takes over the templates of an account at another provider. */
import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import {
  type ConvertedTemplate,
  convertTemplates,
  type ForeignTemplate,
  ImportError,
  readForeignTemplates,
} from '#features/drop-in/postmark/import.ts'
import { createTemplate } from '#features/setup/templates/templates.ts'
import { AppError } from '#platform/errors.ts'
import { seconds } from '#platform/units.ts'
import { resolveOperator } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand, UsageError } from './admin-command.ts'
import { type Call, withData } from './call.ts'
import { type AccountOption, addCommand, type JsonOption, withAccount } from './options.ts'
import { formatCount, printResult, toList, toPrintable } from './output.ts'

const POSTMARK_URL = 'https://api.postmarkapp.com'
const TIMEOUT_MS = seconds(30)

type ImportInput = AccountOption & Pick<ConvertedTemplate, 'foreignId' | 'input'>

interface Imported {
  readonly alias: string
  readonly id: number
  /** `left`: it has to be converted by hand, or was refused. */
  readonly result: 'imported' | 'exists' | 'left'
  readonly problems: readonly string[]
}

const importTemplate = defineAdminCommand(
  'templates.import',
  async ({ opened: { app } }, { account, foreignId, input }: ImportInput): Promise<Imported> => {
    const shown = { alias: input.alias, id: foreignId }
    try {
      await createTemplate(app, resolveOperator(app, account), input, foreignId)
      return { ...shown, result: 'imported', problems: [] }
    } catch (error) {
      if (!(error instanceof AppError && error.status < 500)) throw error
      const details = error.details.length > 0 ? error.details.map(({ message }) => message) : [error.message]
      return { ...shown, result: error.code === 'template_exists' ? 'exists' : 'left', problems: details }
    }
  },
)

export const templateAdminCommands = [importTemplate]

interface ImportOptions extends JsonOption, AccountOption {
  readonly from: 'postmark'
  readonly url: string
}

export function addTemplateCommands(program: Command): void {
  const templates = program.command('templates').description('import the templates of another provider')
  withAccount(
    addCommand(
      templates,
      'import',
      'import templates, converted into our syntax; reads the server token of Postmark from standard input; exit code 1 if one has to be converted by hand',
    ),
  )
    .addOption(new Option('--from <provider>', 'provider').choices(['postmark']).makeOptionMandatory())
    .option('--url <url>', 'URL of its API', POSTMARK_URL)
    .action(async (options: ImportOptions) => {
      const converted = convertTemplates(await readTemplates(options.url, readToken()))
      const { account } = options
      const results = await withData(loadConfig().config, (call) => importEach(call, converted, { account }))
      printResult(options, toList(results), () => results.flatMap(toLines).concat(summarise(results)).join('\n'))
      if (results.some(({ result }) => result === 'left')) process.exitCode = 1
    })
}

async function importEach(
  call: Call,
  converted: readonly ConvertedTemplate[],
  account: AccountOption,
): Promise<Imported[]> {
  const results: Imported[] = []
  for (const { foreignId, input, problems } of converted)
    results.push(
      problems.length > 0
        ? { alias: input.alias, id: foreignId, result: 'left', problems }
        : await call(importTemplate, { ...account, foreignId, input }),
    )
  return results
}

function readToken(): string {
  if (process.stdin.isTTY) throw new UsageError('No token given; pipe the server token of Postmark in.')
  const token = readFileSync(0, 'utf8').trim()
  if (!/^[\x21-\x7e]{1,200}$/.test(token)) throw new UsageError('The token must be one line of ASCII characters.')
  return token
}

async function readTemplates(url: string, token: string): Promise<ForeignTemplate[]> {
  const base = url.endsWith('/') ? url.slice(0, -1) : url
  if (!URL.canParse(base)) throw new UsageError(`${url} is not a URL.`)
  try {
    return await readForeignTemplates((path) =>
      fetch(`${base}${path}`, {
        headers: { 'x-postmark-server-token': token, accept: 'application/json' },
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      }),
    )
  } catch (error) {
    if (error instanceof ImportError) throw new CommandError(error.message)
    throw new CommandError(`${base} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const RESULTS = { imported: 'imported', exists: 'already here', left: 'not imported' }

const toLines = ({ alias, id, result, problems }: Imported): string[] => [
  `${toPrintable(alias)} (${id}): ${RESULTS[result]}`,
  ...problems.map((problem) => `  ${toPrintable(problem)}`),
]

function summarise(results: readonly Imported[]): string {
  const count = (wanted: Imported['result']): number => results.filter(({ result }) => result === wanted).length
  const left = count('left')
  return `${formatCount(results.length, 'template')}: ${count('imported')} imported, ${count('exists')} already here, ${left} not imported.${left > 0 ? ' Write these anew: docs/templates.md has the syntax.' : ''}`
}
