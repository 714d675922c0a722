/** @module /v1/operator/emails: the emails of all accounts, newest first; a page is merged from those of the accounts. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import type { RowWindow } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { pageBody } from '#platform/http/envelope.ts'
import { Filter, PageBody, parsePage } from '#platform/http/schemas.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { EmailQuery, EmailRow } from './model.ts'
import type { StoredEmail } from './read.ts'
import { findEmails } from './routes.ts'
import { emailRowWire, type MaxAttempts } from './wire.ts'

/** Without page numbers, for which every page before would be read. */
const OperatorEmailQuery = Type.Composite([
  Type.Omit(EmailQuery, ['page']),
  Type.Object({ account_id: Filter('Only of the account with this id.') }),
])

const OperatorEmail = Type.Object({
  ...EmailRow.properties,
  account: Type.String({ description: 'Name of its account.' }),
})

export const operatorEmailRoutes = (app: App, { maxAttempts }: { readonly maxAttempts: MaxAttempts }) =>
  new Elysia({ prefix: '/v1/operator/emails' }).use(authenticated).get(
    '/',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'emails' })
      const page = parsePage(query)
      const { emails, total, end } = await findEmailsOfAll(app, query, page)
      const rows = emails.map(({ account, email }) => ({ ...emailRowWire(email, maxAttempts), account }))
      return pageBody(rows, { ...page, total, hasMore: end !== undefined }, end)
    },
    {
      query: OperatorEmailQuery,
      response: PageBody(OperatorEmail),
      detail: operatorRoute(
        'List the emails of all accounts',
        'As GET /v1/emails. A page may have fewer rows than `per_page`: continue while there is a `next_cursor`.',
      ),
    },
  )

interface OwnedEmail {
  readonly email: StoredEmail
  readonly account: string
}

/** Time and id, newest first. */
type Key = readonly [createdAt: number, id: number]

const keyOf = ({ createdAt, id }: StoredEmail): Key => [createdAt, id]
const compareNewest = (a: Key, b: Key): number => b[0] - a[0] || b[1] - a[1]

/** `end`: where the next page begins; undefined for the last page. */
async function findEmailsOfAll(app: App, query: Static<typeof OperatorEmailQuery>, page: RowWindow) {
  const only = findFilteredAccountId(app, query.account_id)
  const accounts = listAccounts(app.config, app.db).filter(({ id }) => only === undefined || id === only)
  let emails: OwnedEmail[] = []
  let total = 0
  let end: Key | undefined
  const endAt = (key: Key) => {
    if (!end || compareNewest(key, end) < 0) end = key
  }
  const refusals: unknown[] = []
  for (const { id, name } of accounts) {
    await yieldToEventLoop()
    const found = await findEmails(app, id, query, page).catch((error: unknown) => {
      // Another account may have the stream or the domain.
      if (!isOfOneAccount(error)) throw error
      refusals.push(error)
      return undefined
    })
    if (!found) continue
    total += found.total
    if (found.lastKey && (found.hasMore ?? found.emails.length === page.limit)) endAt(found.lastKey as Key)
    emails.push(...found.emails.map((email) => ({ email, account: name })))
    emails.sort((a, b) => compareNewest(keyOf(a.email), keyOf(b.email)))
    const last = emails[page.limit - 1]
    if (last && emails.length > page.limit) endAt(keyOf(last.email))
    emails = emails.slice(0, page.limit)
  }
  if (refusals.length > 0 && refusals.length === accounts.length) throw refusals[0]
  const shown = emails.filter(({ email }) => end === undefined || compareNewest(keyOf(email), end) <= 0)
  return { emails: shown, total, end }
}

const isOfOneAccount = (error: unknown): boolean =>
  error instanceof AppError && error.details.some(({ field }) => field === 'stream' || field === 'domain')
