/**
 * @module `tassis import` of mailgun, ses, sendgrid, postmark, resend and brevo: takes over who must get no mail, with
 * reasons and dates, and templates, converted into our syntax. What is here stays as it is.
 */
import { Option } from 'commander'
import { convertMustachio } from '#features/drop-in/postmark/mustachio.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { type CommandApi, withApi } from '../api.ts'
import type { Command } from '../command.ts'
import { type AccountOption, collectOption, readInput } from '../options.ts'
import type { JsonOption } from '../output.ts'
import { ImportTable } from './result.ts'
import {
  type ListSource,
  openApi,
  PROVIDERS,
  type Provider,
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
  const remote = files ? undefined : openApi(provider, { ...options, key })
  const pagesOf = (wanted: string): Pages[] =>
    (files ?? []).flatMap(({ kind, pages }) => (kind === wanted ? [pages()] : []))
  await withApi(options, async (api) => {
    for (const [kind, list] of Object.entries(lists)) {
      const lines = toLines(remote ? [remote.list(list)] : pagesOf(kind), list)
      await table.putSuppressions(api, { source: kind, instead: list.instead }, lines)
    }
    const templates = remote ? [remote.templates(source)] : pagesOf('templates')
    const found = (await Promise.all(templates.map((pages) => Array.fromAsync(pages)))).flat(2).filter(isJsonObject)
    for (const row of source.hasLayouts ? fillLayouts(found) : found)
      await importTemplate(api, table, toTemplate(row, source))
  })
  table.print(options, 'docs/templates.md has the syntax of templates that were refused.')
}

type Pages = Iterable<readonly unknown[]> | AsyncIterable<readonly unknown[]>

async function* toLines(sources: readonly Pages[], list: ListSource): AsyncGenerator<string[][]> {
  const { address, at, reason, by, origin } = list
  for (const pages of sources)
    for await (const page of pages)
      yield page.map((row) => [
        readField(row, address),
        reason ?? readField(row, by),
        readField(row, origin),
        readField(row, at),
      ])
}

/** Of Postmark: the templates that are sent, with their layouts around them. */
function fillLayouts(rows: readonly JsonObject[]): JsonObject[] {
  const isLayout = (row: JsonObject): boolean => row['TemplateType'] === 'Layout'
  const layouts = new Map(rows.filter(isLayout).map((row) => [row['Alias'], row]))
  return rows
    .filter((row) => !isLayout(row) && row['Active'] !== false)
    .map((row) => {
      const name = readField(row, 'LayoutTemplate')
      if (name === '') return row
      const layout = layouts.get(name)
      if (!layout) return { ...row, problem: `its layout "${name}" is missing` }
      const fill = (field: string): string => {
        const body = readField(row, field)
        const around = body && readField(layout, field)
        return around ? around.replace(/\{\{\{\s*@content\s*\}\}\}/g, () => body) : body
      }
      return { ...row, HtmlBody: fill('HtmlBody'), TextBody: fill('TextBody') }
    })
}

/** What a provider fills in itself when it sends. */
const FILLED_IN =
  /<%[^%]{1,100}%>|%(?:recipient[\w.]{0,50}|[a-z_]{0,20}unsubscribe[a-z_]{0,20})%|\{\{\{?\s*(?:amazonSESUnsubscribeUrl|RESEND_UNSUBSCRIBE_URL|unsubscribe(?:_preferences)?|mirror)\s*\}/

function toTemplate(row: JsonObject, source: TemplateSource) {
  const body = row[source.body ?? '']
  const inner = isJsonObject(body) ? body : row
  const versions = source.versions ? inner[source.versions] : undefined
  const version = Array.isArray(versions) ? versions.find(({ active }) => active === 1) : inner['version']
  const template = { ...inner, version }
  const problems = [readField(row, 'problem')].filter(Boolean)
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
  if (id === '') problems.push(`it has no ${source.id}`)
  return {
    alias: readField(template, source.alias) || (source.prefix ?? '') + id,
    name: (readField(template, source.name) || id).slice(0, 200),
    // A send sets its own; one without is a 422 that names the variable.
    subject: convert('subject') ?? '{{ subject }}',
    html_body,
    text_body,
    // Postmark: sends may name it by its number.
    foreign_id: source.hasLayouts ? Number(id) : undefined,
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
