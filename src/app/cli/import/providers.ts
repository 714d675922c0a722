/**
 * @module `tassis import` of mailgun, ses, sendgrid, postmark, resend and brevo: takes over who must get no mail, with
 * reasons and dates, and templates, converted into our syntax. What is here stays as it is.
 */
import { Option } from 'commander'
import type { ImportSuppressionsResult } from '#client/api.ts'
import { convertTemplates, type ForeignTemplate } from '#features/drop-in/postmark/import.ts'
import { convertMustachio } from '#features/drop-in/postmark/mustachio.ts'
import { formatCsv } from '#platform/csv/cells.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { type CommandApi, withApi } from '../api.ts'
import type { Command } from '../command.ts'
import { type AccountOption, collectOption, readInput } from '../options.ts'
import type { JsonOption } from '../output.ts'
import { ImportTable } from './result.ts'
import {
  type ListSource,
  PROVIDERS,
  type Provider,
  ProviderApi,
  readField,
  readFile,
  type TemplateSource,
} from './sources.ts'

type Options = JsonOption &
  AccountOption &
  Readonly<Partial<Record<'keyFile' | 'url' | 'domain' | 'region', string>>> & {
    readonly file?: readonly string[]
    readonly apply?: true
  }

interface Foreign extends Omit<ReturnType<typeof toTemplate>, 'problems'> {
  /** What could not be converted; empty: everything was. */
  readonly problems: readonly string[]
  readonly foreign_id?: number
}

/** @param add adds a command to the group `tassis import` */
export function addProviderImports(add: ReturnType<Command['group']>): void {
  for (const [name, provider] of Object.entries(PROVIDERS)) {
    const kinds = Object.keys(provider.lists).join(', ')
    const { title, needs } = provider
    const command = add(
      name,
      `take over suppressions and templates of ${title}; reads its API key${name === 'ses' ? ' (id:secret)' : ''} from standard input unless there is --file; exit code 1 if something was refused`,
    )
      .account()
      .option('--apply', 'write; default: only show what would be written')
      .option(
        '--file <[kind=]path>',
        `file that it exported, CSV or JSON; may be repeated; kinds: ${kinds}, templates`,
        collectOption,
      )
      .option('--key-file <path>', 'file with the API key')
      .option('--url <url>', 'URL of its API, such as that of another region', provider.url)
    if (needs) command.option(`--${needs} <name>`, `${needs} at ${title}`)
    command.action((options: Options) => run(provider, options))
  }
}

/** `tassis templates import`: only templates, without a dry run. */
export function addTemplateCommands(program: Command): void {
  const add = program.group('templates', 'import the templates of another provider')
  add(
    'import',
    'import templates, converted into our syntax; reads the server token of Postmark from standard input; exit code 1 if one has to be converted by hand',
  )
    .account()
    .addOption(new Option('--from <provider>', 'provider').choices(['postmark']).makeOptionMandatory())
    .option('--url <url>', 'URL of its API', PROVIDERS.postmark.url)
    .action((options: Options) => run({ ...PROVIDERS.postmark, lists: {} }, { ...options, apply: true }))
}

async function run(provider: Provider, options: Options): Promise<void> {
  const { lists, templates: source } = provider
  const table = new ImportTable(options.apply === true)
  const files = options.file?.map((text) => readFile(provider, text))
  const key = files ? '' : readInput(options.keyFile, `API key of ${provider.title}`).toString().trim()
  const remote = files ? undefined : new ProviderApi(provider, { ...options, key })
  const rowsOf = (wanted: string) => files?.filter(({ kind }) => kind === wanted).map(({ rows }) => rows)
  await withApi(options, async (api) => {
    for (const [kind, list] of Object.entries(lists))
      await importList(api, table, [kind, list], rowsOf(kind) ?? remote?.list(list) ?? [])
    const found = rowsOf('templates')?.flat() ?? (await Array.fromAsync(remote?.templates(source) ?? []))
    for (const template of source.hasLayouts ? convertPostmark(found) : found.map((row) => toTemplate(row, source)))
      await importTemplate(api, table, template)
  })
  table.print(options, 'docs/templates.md has the syntax of templates that were refused.')
}

const ROWS_PER_REQUEST = 5000
const COLUMNS = ['email_address', 'reason', 'origin', 'created_at']

/** Imports a list in parts, so that only one is in memory, and a failure on the way keeps the others. */
async function importList(
  api: CommandApi,
  table: ImportTable,
  [kind, source]: readonly [string, ListSource],
  pages: Iterable<readonly unknown[]> | AsyncIterable<readonly unknown[]>,
): Promise<void> {
  const sum = { total: 0, imported: 0, already_suppressed: 0, invalid: 0 } satisfies Partial<ImportSuppressionsResult>
  let first = ''
  const flush = async (rows: readonly string[][]): Promise<void> => {
    sum.total += rows.length
    if (!table.isApplied || rows.length === 0 || source.instead) return
    const file = Buffer.from(formatCsv([COLUMNS, ...rows]))
    const { data, errors } = await api.suppressions.import(file, { headers: { 'content-type': 'text/csv' } })
    first ||= errors[0]?.error ?? ''
    for (const name of ['imported', 'already_suppressed', 'invalid'] as const) sum[name] += data[name]
  }
  const waiting: string[][] = []
  for await (const page of pages)
    for (const row of page) {
      waiting.push(toLine(row, source))
      if (waiting.length >= ROWS_PER_REQUEST) await flush(waiting.splice(0))
    }
  await flush(waiting)
  const { total, imported, already_suppressed: here, invalid } = sum
  const detail = table.isApplied ? `${imported} new, ${here} here before` : 'those that exist stay as they are'
  const { instead } = source
  const exists = table.isApplied && imported === 0
  if (total > 0) await table.put({ source: kind, name: String(total), instead, exists, detail }, async () => undefined)
  if (invalid > 0) await table.put({ source: kind, name: String(invalid), refused: `no addresses, such as: ${first}` })
}

/** Words of reasons that are not ours are known to the import of suppressions. */
const toLine = (row: unknown, { address, at, reason, by, origin }: ListSource): string[] => [
  readField(row, address),
  reason ?? readField(row, by),
  readField(row, origin),
  toTime(readField(row, at)),
]

/** ISO 8601 of a time in seconds, or in whichever form; empty: it is none. */
function toTime(text: string): string {
  const at = /^\d{9,11}(?:\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text)
  return Number.isNaN(at) ? '' : isoTime(at)
}

/** What a provider fills in itself when it sends. */
const FILLED_IN =
  /<%[^%]{1,100}%>|%(?:recipient[\w.]{0,50}|[a-z_]{0,20}unsubscribe[a-z_]{0,20})%|\{\{\{?\s*(?:amazonSESUnsubscribeUrl|RESEND_UNSUBSCRIBE_URL|unsubscribe(?:_preferences)?|mirror)\s*\}/

function toTemplate(row: unknown, source: TemplateSource) {
  const whole = isJsonObject(row) ? row : {}
  const inner = source.body && isJsonObject(whole[source.body]) ? (whole[source.body] as typeof whole) : whole
  const versions = source.versions ? inner[source.versions] : undefined
  const version = Array.isArray(versions) ? versions.find(({ active }) => active === 1) : inner['version']
  const template = { ...inner, version }
  const problems: string[] = []
  // Resend has values for variables that a send leaves out.
  const variables = Array.isArray(inner['variables']) ? inner['variables'] : []
  const defaults = variables
    .filter(({ key, fallback_value: value }) => /^\w+$/.test(key) && (value ?? '') !== '')
    .map(({ key, fallback_value: value }) => `{% set ${key} = ${key}|default(${JSON.stringify(value)}) %}`)
    .join('')
  const convert = (field: 'subject' | 'html' | 'text'): string | null => {
    const text = readField(template, source[field])
    if (text === '') return null
    const filled = FILLED_IN.exec(text)?.[0]
    if (filled)
      problems.push(
        `${field}: ${filled} is filled in by the provider; mail with transactional: false has unsubscribe headers here`,
      )
    if (source.isJinja) return text
    const conversion = convertMustachio(text, field === 'html')
    problems.push(...conversion.problems.map((problem) => `${field}, ${problem}`))
    return defaults + conversion.source
  }
  const id = readField(template, source.id)
  const html_body = convert('html')
  const text_body = convert('text')
  if (html_body === null && text_body === null) problems.push('it has no body')
  return {
    alias: (source.prefix ?? '') + readField(template, source.alias ?? source.id),
    name: (readField(template, source.name) || id).slice(0, 200),
    // A send sets its own; one without is a 422 that names the variable.
    subject: convert('subject') ?? '{{ subject }}',
    html_body,
    text_body,
    problems,
  }
}

const convertPostmark = (found: readonly unknown[]): Foreign[] =>
  convertTemplates(found as readonly ForeignTemplate[]).map(({ foreignId, input, problems }) => {
    const { alias, name, subject, htmlBody, textBody } = input
    return { alias, name, subject, html_body: htmlBody, text_body: textBody, foreign_id: foreignId, problems }
  })

async function importTemplate(api: CommandApi, table: ImportTable, { problems, ...template }: Foreign): Promise<void> {
  const { alias, name, foreign_id, ...texts } = template
  const { data: here } = await api.templates.list({ alias, per_page: 1 })
  const exists = here.length > 0
  const left = exists ? [] : [...problems]
  if (!exists && left.length === 0) {
    // What our engine cannot read is found before anything is written.
    const { data } = await api.templates.renderText({ ...texts, template_data: {} })
    left.push(...data.problems.filter(({ kind }) => kind === 'syntax').map(({ message }) => message))
  }
  const refused = left.join('; ') || undefined
  await table.put({ source: 'template', name: alias, exists, refused }, async () => {
    if (foreign_id === undefined) return api.templates.create({ alias, name, ...texts })
    const { data: account } = await api.account.get()
    return api.operator.importAccountTemplate(account.id, { alias, name, ...texts, foreign_id })
  })
}
