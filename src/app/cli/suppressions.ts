/**
 * @module `tassis suppressions`: lists, adds, removes, imports and exports the suppressed addresses of an account;
 * `tassis people`: whether mail reaches one recipient, and what it got; `tassis lists`: the contact lists of all accounts;
 * `tassis templates import`: takes over the templates of an account at another provider.
 */
import { Option } from 'commander'
import type { Person, PersonSuppression } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import {
  type ConvertedTemplate,
  convertTemplates,
  type ForeignTemplate,
  ImportError,
  readForeignTemplates,
} from '#features/drop-in/postmark/import.ts'
import { seconds } from '#platform/units.ts'
import { type CommandApi, readRows, withApi } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type AccountOption, readInput } from './options.ts'
import {
  formatCount,
  formatFields,
  formatPage,
  type JsonOption,
  joinParagraphs,
  printResult,
  toPrintableLines,
} from './output.ts'

export function addListsCommand(program: Command): void {
  program
    .add('lists', 'list the contact lists of all accounts with their numbers of contacts')
    .accountFilter()
    .limit('lists', 50)
    .list(({ api, query }: ListContext<unknown>) => api.operator.listContactLists(query), 'id account name contacts')
}

export function addSuppressionCommands(program: Command): void {
  const suppressions = program
    .command('suppressions')
    .description('list, change, import or export the suppressed addresses of an account')
  const add = (usage: string, description: string, meanings?: Readonly<Record<string, string>>): Command =>
    suppressions.add(usage, description, { address: 'email address', ...meanings }).account()
  add('list', 'list the newest suppressions')
    .limit('suppressions', 30)
    .option('--reason <reason>', 'only with this reason, such as hard_bounce, complaint, unsubscribe or manual')
    .option('--email <address>', 'only this address')
    .list(
      ({ api, options: { reason, email }, query }: ListContext<{ reason?: string; email?: string }>) =>
        api.suppressions.list({ reason, email, per_page: query.per_page }),
      'email_address reason stream list_id created_at source_email_id',
    )
  add('add <address>', 'suppress an address')
    .option('--reason <text>', 'reason; unsubscribe suppresses only mail with transactional: false', 'manual')
    .answer(async ({ api, options: { reason } }: Context<{ reason: string }>, address) =>
      api.suppressions.create({ email_address: address, reason }),
    )
  add('remove <address>', 'remove an address from the list').answer(
    async ({ api }, address) => {
      const found = await readRows(api.suppressions.list({ email: address }), Number.POSITIVE_INFINITY)
      await api.suppressions.delete(address)
      return found
    },
    ({ data }) => `Removed ${formatCount(data.length, 'suppression')}.`,
  )
  add(
    'import <file>',
    'import a CSV file; its first line names the columns email_address (or email, or address), reason, stream and list; exit code 1 if a line is invalid',
    { file: 'path of the file, in UTF-8; - for standard input' },
  )
    .option('--reason <text>', 'reason for lines without one', 'manual')
    .answer(
      async ({ api, options: { reason } }: Context<{ reason: string }>, file) => {
        const headers = { 'content-type': 'text/csv' }
        const result = await api.suppressions.import(readInput(file, 'file'), { query: { reason }, headers })
        if (result.data.invalid > 0) process.exitCode = 1
        return result
      },
      ({ data, errors }) =>
        [formatFields(data), ...errors.map(({ line, error }) => `  line ${line}: ${error}`)].join('\n'),
    )
  suppressions
    .command('export')
    .description('print all suppressions as CSV')
    .account()
    .run(async ({ api }) => {
      const response = await api.suppressions.export()
      if (process.stdout.isTTY) process.stdout.write(toPrintableLines(await response.text()))
      else for await (const chunk of response.body ?? []) process.stdout.write(chunk)
    })
}

export function addPeopleCommands(program: Command): void {
  const add = program.group('people', 'show what an account has of one recipient', { address: 'email address' })
  add('show <address>', 'show whether mail reaches an address, its suppressions, newest emails and contact lists')
    .account()
    .answer(async ({ api }, address) => api.people.get(address), formatPerson)
}

function formatPerson({ data }: { readonly data: Person }): string {
  const { suppressions, recent_emails: emails, lists, received, mailboxes, ...facts } = data
  return joinParagraphs(
    formatFields({ ...facts, received: received?.length || null, mailboxes: mailboxes?.map(({ address }) => address) }),
    formatPage({ data: suppressions }, 'reason stream list_id created_at added_by caused_by', {
      added_by: ({ added_by: by }: PersonSuppression) => by?.name ?? by?.type,
      caused_by: ({ source_email: email }: PersonSuppression) => email && `${email.id} ${email.subject}`,
    }),
    formatPage(
      { data: emails },
      'id created_at recipient_state subject from_address',
      undefined,
      'No email to this address is stored.',
    ),
    formatPage({ data: lists ?? [] }, 'name status subscribed_at unsubscribed_at'),
  )
}

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
  const add = program.group('templates', 'import the templates of another provider')
  add(
    'import',
    'import templates, converted into our syntax; reads the server token of Postmark from standard input; exit code 1 if one has to be converted by hand',
  )
    .account()
    .addOption(new Option('--from <provider>', 'provider').choices(['postmark']).makeOptionMandatory())
    .option('--url <url>', 'URL of its API', POSTMARK_URL)
    .action(async (options: ImportOptions) => {
      const token = readInput(undefined, 'server token of Postmark').toString().trim()
      if (!/^[\x21-\x7e]{1,200}$/.test(token)) throw new UsageError('The token must be one line of ASCII characters.')
      const converted = convertTemplates(await readTemplates(options.url, token))
      const data: Imported[] = []
      await withApi(options, async (api) => {
        const { data: account } = await api.account.get()
        for (const template of converted) data.push(await importTemplate(api, account.id, template))
      })
      const count = (wanted: Imported['result']): number => data.filter(({ result }) => result === wanted).length
      const left = count('left')
      const advice = left > 0 ? ' Write these anew: docs/templates.md has the syntax.' : ''
      const summary = `${formatCount(data.length, 'template')}: ${count('imported')} imported, ${count('exists')} already here, ${left} not imported.${advice}`
      printResult(options, { data }, (page) => `${formatPage(page, 'alias id result problems')}\n${summary}`)
      if (left > 0) process.exitCode = 1
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
