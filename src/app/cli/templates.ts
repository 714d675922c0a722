/** @module `tassis templates import`: takes over the templates of an account at another provider. */
import { Option } from 'commander'
import { TassisError } from '#client/client.ts'
import {
  type ConvertedTemplate,
  convertTemplates,
  type ForeignTemplate,
  ImportError,
  readForeignTemplates,
} from '#features/drop-in/postmark/import.ts'
import { seconds } from '#platform/units.ts'
import { type CommandApi, withApi } from './api.ts'
import type { Command } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type AccountOption, readInput } from './options.ts'
import { fields, formatCount, formatPage, type JsonOption, printResult } from './output.ts'

const POSTMARK_URL = 'https://api.postmarkapp.com'
const TIMEOUT_MS = seconds(30)

interface Imported {
  readonly alias: string
  readonly id: number
  /** `left`: it has to be converted by hand, or was refused. */
  readonly result: 'imported' | 'exists' | 'left'
  readonly problems: readonly string[]
}

type ImportOptions = JsonOption & AccountOption & { readonly url: string }

export function addTemplateCommands(program: Command): void {
  const templates = program.command('templates').description('import the templates of another provider')
  templates
    .add(
      'import',
      'import templates, converted into our syntax; reads the server token of Postmark from standard input; exit code 1 if one has to be converted by hand',
    )
    .account()
    .addOption(new Option('--from <provider>', 'provider').choices(['postmark']).makeOptionMandatory())
    .option('--url <url>', 'URL of its API', POSTMARK_URL)
    .action(async (options: ImportOptions) => {
      const converted = convertTemplates(await readTemplates(options.url, readToken()))
      const results = await withApi(options, async (api) => {
        const { data: account } = await api.account.get()
        const imported: Imported[] = []
        for (const template of converted) imported.push(await importTemplate(api, account.id, template))
        return imported
      })
      printResult(options, { data: results }, ({ data }) => summarise(data))
      if (results.some(({ result }) => result === 'left')) process.exitCode = 1
    })
}

async function importTemplate(api: CommandApi, account: string, template: ConvertedTemplate): Promise<Imported> {
  const { foreignId: id, input, problems } = template
  const { alias, name, subject, htmlBody, textBody } = input
  if (problems.length > 0) return { alias, id, result: 'left', problems }
  try {
    const body = { alias, name, subject, html_body: htmlBody, text_body: textBody, foreign_id: id }
    await api.operator.importAccountTemplate(account, body)
    return { alias, id, result: 'imported', problems: [] }
  } catch (error) {
    if (!(error instanceof TassisError && error.status >= 400 && error.status < 500)) throw error
    const details = error.details.length > 0 ? error.details.map(({ message }) => message) : [error.message]
    return { alias, id, result: error.code === 'template_exists' ? 'exists' : 'left', problems: details }
  }
}

function readToken(): string {
  const token = readInput(undefined, 'server token of Postmark').toString().trim()
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

const COLUMNS = fields<Imported>()('alias id result problems')

function summarise(data: readonly Imported[]): string {
  const count = (wanted: Imported['result']): number => data.filter(({ result }) => result === wanted).length
  const left = count('left')
  const advice = left > 0 ? ' Write these anew: docs/templates.md has the syntax.' : ''
  const summary = `${formatCount(data.length, 'template')}: ${count('imported')} imported, ${count('exists')} already here, ${left} not imported.${advice}`
  return [formatPage({ data }, '', COLUMNS), summary].join('\n')
}
