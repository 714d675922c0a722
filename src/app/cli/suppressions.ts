/**
 * @module `tassis suppressions`: lists, adds, removes, imports and exports the suppressed addresses of an account;
 * `tassis people`: whether mail reaches one recipient, and what it got; `tassis lists`: the contact lists of all accounts.
 */
import type { Person, PersonSuppression } from '#client/api.ts'
import { readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { readInput } from './options.ts'
import { formatCount, formatFields, formatPage, joinParagraphs, toPrintableLines } from './output.ts'

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
