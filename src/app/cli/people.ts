/** @module `tassis people`: what an account has of one recipient: whether mail reaches the address, and what it got. */
import type { Person, PersonEmail, PersonSuppression } from '#client/api.ts'
import type { Command } from './command.ts'
import { type Columns, fields, formatFields, formatPage, joinParagraphs } from './output.ts'

export function addPeopleCommands(program: Command): void {
  program
    .command('people')
    .description('show what an account has of one recipient')
    .add('show', 'show whether mail reaches an address, its suppressions, newest emails and contact lists')
    .account()
    .argument('<address>', 'email address')
    .answer(({ api }, address) => api.people.get(address), formatPerson)
}

const SUPPRESSIONS: Columns<PersonSuppression> = {
  ...fields<PersonSuppression>()('reason stream list_id created_at'),
  'ADDED BY': ({ added_by: by }) => by?.name ?? by?.type,
  'CAUSED BY': ({ source_email: email }) => email && `${email.id} ${email.subject}`,
}
const EMAILS = fields<PersonEmail>()('id created_at recipient_state subject from_address')
const LISTS = fields<NonNullable<Person['lists']>[number]>()('name status subscribed_at unsubscribed_at')

function formatPerson({ data }: { readonly data: Person }): string {
  const { suppressions, recent_emails: emails, lists, received, mailboxes, ...facts } = data
  return joinParagraphs(
    formatFields({ ...facts, received: received?.length || null, mailboxes: mailboxes?.map(({ address }) => address) }),
    formatPage({ data: suppressions }, '', SUPPRESSIONS),
    formatPage({ data: emails }, 'No email to this address is stored.', EMAILS),
    formatPage({ data: lists ?? [] }, '', LISTS),
  )
}
