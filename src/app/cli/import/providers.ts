/**
 * @module `tassis import` of mailgun, ses, sendgrid, postmark, resend and brevo: takes over who must get no mail, with
 * reasons and dates, and templates, converted into our syntax. What is here stays as it is.
 */
import { basename } from 'node:path'
import { Option } from 'commander'
import { convertMustachio } from '#features/drop-in/postmark/mustachio.ts'
import { attempt } from '#platform/errors.ts'
import { isJsonObject } from '#platform/json-object.ts'
import type { CommandApi } from '../api.ts'
import type { Command, Context } from '../command.ts'
import { CommandError, collectOption, parseUrlOption, readInput, UsageError } from '../options.ts'
import { ImportTable } from './result.ts'
import {
  type ApiOptions,
  type ListSource,
  listRows,
  openApi,
  PROVIDERS,
  type Provider,
  readField,
  type TemplateSource,
} from './sources.ts'

interface Options extends ApiOptions {
  readonly file?: readonly string[]
  readonly apply?: true
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
      .option('--url <url>', 'URL of its API, such as that of another region', parseUrlOption, provider.url)
    if (needs) command.option(`--${needs} <name>`, `${needs} at ${title}`)
    command.run((context: Context<Options>) => importFrom(provider, context))
  }
}

/** `tassis templates import`: only templates, without a dry run. */
export function addTemplateCommands(program: Command): void {
  const { postmark } = PROVIDERS
  program
    .group('templates', 'import the templates of another provider')(
      'import',
      'import templates, converted into our syntax; reads the server token of Postmark from standard input; exit code 1 if one has to be converted by hand',
    )
    .account()
    .addOption(new Option('--from <provider>', 'provider').choices(['postmark']).makeOptionMandatory())
    .option('--url <url>', 'URL of its API', parseUrlOption, postmark.url)
    .run(({ api, options }: Context<Options>) =>
      importFrom({ ...postmark, lists: {} }, { api, options: { ...options, apply: true } }),
    )
}

async function importFrom(provider: Provider, { api, options }: Context<Options>): Promise<void> {
  const { lists, templates } = provider
  const table = new ImportTable(options.apply === true)
  const files = options.file?.map((text) => readFile(provider, text))
  const read = files ? undefined : openApi(provider, options)
  const readKind = async function* (kind: string, source: ListSource | TemplateSource) {
    if (read) yield* read(source)
    else for (const file of files ?? []) if (file.kind === kind) yield file.rows
  }
  for (const [kind, list] of Object.entries(lists)) {
    const parts = toParts(readKind(kind, list), list)
    await table.putSuppressions(api, { source: kind, instead: list.instead }, parts, list.reason)
  }
  const rows = (await Array.fromAsync(readKind('templates', templates))).flat()
  const layouts = new Map(rows.flatMap((row) => (isLayout(row) ? [[readField(row, 'Alias'), row]] : [])))
  for (const row of rows)
    if (!isLayout(row) && readField(row, 'Active') !== 'false')
      await importTemplate(api, table, toTemplate(row, templates, layouts))
  table.print(options, 'docs/templates.md has the syntax of templates that were refused.')
}

type Part = readonly unknown[] | Buffer<ArrayBuffer>

/** Some APIs have all in one page, and a request to ours has a limit. */
const ROWS_PER_PART = 5000

/** @param parts rows, or CSV, which the import of suppressions reads as it is */
async function* toParts(parts: AsyncIterable<Part>, { address, reason, by, origin, at }: ListSource) {
  const toLine = (row: unknown) =>
    [readField(row, address), reason ?? readField(row, by), readField(row, origin), readField(row, at)] as const
  for await (const part of parts)
    if (Buffer.isBuffer(part)) yield part
    else
      for (let first = 0; first < part.length; first += ROWS_PER_PART)
        yield part.slice(first, first + ROWS_PER_PART).map(toLine)
}

/** The kind and rows of an exported file: `bounces=FILE`, or a file whose name has the kind. */
function readFile({ lists, templates }: Provider, text: string) {
  const kinds = [...Object.keys(lists), 'templates']
  const [, prefix, path = text] = /^([a-z_]{1,30})=(.+)$/.exec(text) ?? []
  const name = basename(path)
    .toLowerCase()
    .replaceAll(/[^a-z]+/g, '_')
  // `group_unsubscribes` has another kind in it.
  const [longest = kinds.length === 2 ? kinds[0] : ''] = kinds
    .filter((kind) => name.includes(kind))
    .sort((a, b) => b.length - a.length)
  const kind = prefix ?? longest ?? ''
  if (!kinds.includes(kind)) throw new UsageError(`Say what ${path} has: --file ${kinds.join(`=${path}, `)}=${path}.`)
  const file = readInput(path, 'file')
  const json = file.toString().replace(/^\ufeff/, '')
  const isJson = /^\s*[[{]/.test(json)
  if (!isJson && kind !== 'templates') return { kind, rows: file }
  const body = attempt((): unknown => JSON.parse(json))
  if (body === undefined) throw new CommandError(`${path} is no JSON: it may be cut off.`)
  return { kind, rows: listRows(body, (lists[kind] ?? templates).rows) }
}

/** Of Postmark: what stands around templates. */
const isLayout = (row: unknown): boolean => readField(row, 'TemplateType') === 'Layout'
const LAYOUT_CONTENT = /\{\{\{\s*@content\s*\}\}\}/g

/** What a provider fills in itself when it sends. */
const FILLED_IN =
  /<%[^%]{1,100}%>|%(?:recipient[\w.]{0,50}|[a-z_]{0,20}unsubscribe[a-z_]{0,20})%|\{\{\{?\s*(?:amazonSESUnsubscribeUrl|RESEND_UNSUBSCRIBE_URL|unsubscribe(?:_preferences)?|mirror)\s*\}/

/** @param layouts by the alias that templates name */
function toTemplate(row: unknown, source: TemplateSource, layouts: ReadonlyMap<string, unknown>) {
  const problems: string[] = []
  const layout = readField(row, 'LayoutTemplate')
  if (layout !== '' && !layouts.has(layout)) problems.push(`its layout "${layout}" is missing`)
  // Of Resend: what a send may leave out.
  const variables = isJsonObject(row) && Array.isArray(row['variables']) ? row['variables'] : []
  const defaults = variables
    .map((variable) => [readField(variable, 'key'), readField(variable, 'fallback_value')] as const)
    .filter(([key, value]) => /^\w+$/.test(key) && value !== '')
    .map(([key, value]) => `{% set ${key} = ${key}|default(${JSON.stringify(value)}) %}`)
    .join('')
  const convert = (field: 'subject' | 'html' | 'text'): string | null => {
    const own = readField(row, source[field])
    if (own === '') return null
    const around = field === 'subject' ? '' : readField(layouts.get(layout), source[field])
    const text = around.replace(LAYOUT_CONTENT, () => own) || own
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
  const id = readField(row, source.id)
  const html_body = convert('html')
  const text_body = convert('text')
  if (html_body === null && text_body === null) problems.push('it has no body')
  if (id === '') problems.push(`it has no ${source.id}`)
  return {
    alias: readField(row, source.alias) || (source.prefix ?? '') + id,
    name: (readField(row, source.name) || id).slice(0, 200),
    // A send sets its own; one without is a 422 that names the variable.
    subject: convert('subject') ?? '{{ subject }}',
    html_body,
    text_body,
    foreign_id: source.hasNumbers ? Number(id) : undefined,
    problems,
  }
}

async function importTemplate(
  api: CommandApi,
  table: ImportTable,
  { problems, foreign_id, alias, name, ...texts }: ReturnType<typeof toTemplate>,
): Promise<void> {
  const { data: here } = await api.templates.list({ alias, per_page: 1 })
  const exists = here.length > 0
  if (!exists && problems.length === 0) {
    // What our engine cannot read is found before anything is written.
    const { data } = await api.templates.renderText({ ...texts, template_data: {} })
    problems.push(...data.problems.filter(({ kind }) => kind === 'syntax').map(({ message }) => message))
  }
  const refused = !exists && problems.join('; ')
  await table.put({ source: 'template', name: alias, exists, refused }, async () => {
    if (foreign_id === undefined) return api.templates.create({ alias, name, ...texts })
    const { data: account } = await api.account.get()
    return api.operator.importAccountTemplate(account.id, { alias, name, ...texts, foreign_id })
  })
}
