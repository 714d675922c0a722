/**
 * @module Contact lists, contacts and broadcasts for tests, through the API where it offers them. Reads deliveries from
 * a receiving server or the database; never changes what a broadcast created.
 */
import type { App } from '#features/core/app/app.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { insertContact } from '#features/setup/contact-store/status.ts'
import { parseUuid } from '#platform/ids.ts'
import { at, type TestApi } from './api.ts'
import { eventually } from './app.ts'

export interface TestContact {
  readonly email: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly status?: 'active' | 'pending'
}

/** Creates a list and returns its id. */
export async function newList({ api }: Pick<TestApi, 'api'>, name: string, key?: string): Promise<string> {
  const answer = await api('POST', '/v1/contact-lists', { name }, key === undefined ? {} : { key })
  if (answer.status !== 201) throw new Error(`no list: ${JSON.stringify(answer.body)}`)
  return String(at(answer.body, 'data', 'id'))
}

/** Adds contacts to a list in one transaction, in this order. */
export function addContacts(app: App, listId: string, contacts: readonly TestContact[]): Promise<void> {
  const list = app.db
    .query<{ id: number; accountId: number }, [Uint8Array]>(
      'SELECT id, account_id AS accountId FROM contact_lists WHERE uuid = ?',
    )
    .get(parseUuid(listId) ?? new Uint8Array())
  if (!list) throw new Error(`there is no list ${listId}`)
  return app.commit.write((tx) => {
    for (const { email, metadata, status = 'active' } of contacts) {
      const inserted = insertContact(app, tx, {
        accountId: list.accountId,
        listId: list.id,
        email,
        status,
        ...(metadata && { metadata: JSON.stringify(metadata) }),
      })
      if (!inserted) throw new Error(`${email} is on the list already`)
    }
  })
}

/** Contacts `one@receiver.test` and so on, named by their number. */
export const createContacts = (count: number): TestContact[] =>
  Array.from({ length: count }, (_, index) => ({
    email: `contact-${index + 1}@receiver.test`,
    metadata: { number: index + 1 },
  }))

export interface OperationState {
  readonly status: string
  readonly total_items: number
  readonly completed_items: number
  readonly failed_items: number
  readonly error_summary: { readonly message: string } | null
  readonly metadata: {
    readonly state: string
    readonly begins_at: string
    readonly handed_over: number
    readonly left_out: number
    readonly emails: Readonly<Record<string, number>>
  }
}

/** The operation's current state, from the API. */
export async function getOperation({ api }: Pick<TestApi, 'api'>, id: string): Promise<OperationState> {
  const answer = await api('GET', `/v1/operations/${id}`)
  if (answer.status !== 200) throw new Error(`no operation: ${JSON.stringify(answer.body)}`)
  return at(answer.body, 'data') as OperationState
}

/** Waits until the operation's broadcast is in this state. */
export const waitForOperation = (service: Pick<TestApi, 'api'>, id: string, state: string): Promise<OperationState> =>
  eventually(async () => {
    const operation = await getOperation(service, id)
    return operation.metadata.state === state ? operation : undefined
  })

/** Counts a broadcast's emails by status, without empty statuses. */
export const countByStatus = ({ metadata }: OperationState): Record<string, number> =>
  Object.fromEntries(Object.entries(metadata.emails).filter(([, count]) => count > 0))

export interface BroadcastEmail {
  readonly id: number
  readonly address: string
  readonly status: string
  readonly subject: string
}

/** All stored broadcast emails, in the order of their creation. */
export const readBroadcastEmails = (app: App): BroadcastEmail[] =>
  app.db
    .query<BroadcastEmail & { code: number }, []>(
      `SELECT emails.id, address, emails.status AS code, subject FROM emails JOIN recipients ON email_id = emails.id
       WHERE broadcast_id IS NOT NULL ORDER BY emails.id`,
    )
    .all()
    .map(({ id, address, code, subject }) => ({ id, address, status: statusName(code), subject }))
