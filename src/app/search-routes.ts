/** @module `GET /v1/search`: what of an account the text of one box may mean, of each kind that the caller may read. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requiresOrSupport, SUPPORT_RIGHT } from '#features/core/app/http.ts'
import { findClosest, findOldestTime, findPeople } from '#features/sending/emails/find-people.ts'
import { EmailRow } from '#features/sending/emails/model.ts'
import { findEmails } from '#features/sending/emails/routes.ts'
import { emailRowWire, hideContent, type MaxAttempts } from '#features/sending/emails/wire.ts'
import { createNameTest } from '#features/sending/queue/search.ts'
import { hasScope, type Scope } from '#features/setup/api-keys/scopes.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, isoTimeOrNull } from '#platform/http/envelope.ts'
import { DataBody, Text, TextOrNull, TimeOrNull, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'

/** Of each kind. */
const MAX_FOUND = 5
const MAX_CLOSEST = 3
/** Rows of a kind whose names are compared: the newest. */
const MAX_NAMES = 2000
/** Reading and comparing them takes about as long as 4 KiB of a body. */
const NAMES_PER_WORK_UNIT = 20

type Row = { readonly uuid: UuidBytes; readonly name: string; readonly detail: string | null }

/** @param columns name and detail */
const selectNames = (table: string, columns: string): string =>
  `SELECT uuid, ${columns} FROM ${table} WHERE account_id = ? ORDER BY id DESC LIMIT ${MAX_NAMES}`

const LIVE = (table: string): string => `(SELECT * FROM ${table} WHERE deleted_at IS NULL)`

const sql = prepareStatements((db) => {
  const prepare = (table: string, columns: string) => db.prepare<Row, [number]>(selectNames(table, columns))
  return {
    domains: prepare(LIVE('domains'), 'domain AS name, NULL AS detail'),
    templates: prepare(LIVE('templates'), "name, alias || coalesce(' ' || locale, '') AS detail"),
    webhooks: prepare(LIVE('webhooks'), 'url AS name, description AS detail'),
    lists: prepare(LIVE('contact_lists'), 'name, description AS detail'),
    mailboxes: prepare(LIVE('agent_mailboxes'), "local_part || '@' || domain AS name, display_name AS detail"),
    newsletters: prepare('newsletters', 'subject AS name, NULL AS detail'),
  }
})

const KINDS = {
  domains: ['domains:read', 'Sending domains, by name.'],
  templates: ['templates:read', 'Templates, by name and alias.'],
  webhooks: ['webhooks:read', 'Webhooks, by URL and description.'],
  lists: ['contacts:read', 'Contact lists, by name and description.'],
  mailboxes: ['mailboxes:read', 'Agent mailboxes, by address and name.'],
  newsletters: ['contacts:read', 'Newsletters, by subject.'],
} as const satisfies Readonly<Record<string, readonly [Scope, string]>>
const KIND_NAMES = Object.keys(KINDS) as (keyof typeof KINDS)[]

const FoundItem = Type.Object(
  {
    id: Uuid({ description: 'Id.' }),
    name: Text('Name, or what stands for it: domain, URL, address or subject.'),
    detail: TextOrNull('Alias, description or display name; null: none.'),
  },
  { title: 'FoundItem' },
)

const FoundPerson = Type.Object(
  {
    address: Text('Address.'),
    name: TextOrNull('Name in the newest email to the address; null: none.'),
    last_email_at: TimeOrNull('When the newest stored email to the address was accepted; null: there is none.'),
  },
  { title: 'FoundPerson' },
)

const itemsOf = (description: string) => Type.Array(FoundItem, { maxItems: MAX_FOUND, description })

const SearchResults = Type.Object({
  emails: Type.Array(Type.Object(EmailRow.properties), {
    maxItems: MAX_FOUND,
    description: 'The newest emails that `q` of `GET /v1/emails` finds.',
  }),
  people: Type.Array(FoundPerson, {
    maxItems: MAX_FOUND,
    description: 'Recipients, by address, domain or name; contacts and suppressed addresses, by their beginning.',
  }),
  domains: itemsOf(KINDS.domains[1]),
  templates: itemsOf(KINDS.templates[1]),
  webhooks: itemsOf(KINDS.webhooks[1]),
  lists: itemsOf(KINDS.lists[1]),
  mailboxes: itemsOf(KINDS.mailboxes[1]),
  newsletters: itemsOf(KINDS.newsletters[1]),
  closest: Type.Array(Type.String(), {
    maxItems: MAX_CLOSEST,
    description:
      'If there are neither emails nor people: addresses that got mail and differ from `q` by one or two typing errors, the nearest first. Of an account with millions of addresses, only some are compared.',
  }),
  since: TimeOrNull('When the oldest email that is still stored was accepted; null: there is none.'),
})

/** @param options.maxAttempts of a feature that emails may not import */
export const searchRoutes = (app: App, options: { readonly maxAttempts: MaxAttempts }) =>
  new Elysia({ prefix: '/v1/search', tags: ['Emails'] })
    .use(authenticated)
    .get('/', async ({ actor, query: { q } }) => dataBody(await searchAll(app, actor, q, options.maxAttempts)), {
      query: Type.Object({ q: Type.String({ description: 'As `q` of `GET /v1/emails`.' }) }),
      response: DataBody(SearchResults),
      detail: describeRoute(
        'Search everything',
        requiresOrSupport('emails:read'),
        'At most five of each kind, newest first. What the key or the role may not read is empty.',
      ),
    })

async function searchAll(
  app: App,
  actor: Actor,
  q: string,
  maxAttempts: MaxAttempts,
): Promise<Static<typeof SearchResults>> {
  const { accountId } = actor
  const mayRead = (scope: string) => hasScope(actor.scopes, scope)
  const isNamed = createNameTest(q)
  const items = {} as Record<keyof typeof KINDS, Static<typeof FoundItem>[]>
  await app.fairScheduler.forEach(getTenantId(app.db, accountId), KIND_NAMES, (kind) => {
    const rows = mayRead(KINDS[kind][0]) ? sql(app.db)[kind].all(accountId) : []
    app.workBudget.charge(accountId, rows.length / NAMES_PER_WORK_UNIT)
    items[kind] = rows
      .filter(({ name, detail }) => isNamed(`${name} ${detail ?? ''}`))
      .slice(0, MAX_FOUND)
      .map(({ uuid, name, detail }) => ({ id: formatUuid(uuid), name, detail }))
  })
  const page = { limit: MAX_FOUND, offset: 0 }
  const { emails } = await findEmails(app, accountId, { q }, page)
  const sources = (['contacts', 'suppressions'] as const).filter(
    (source) => mayRead(`${source}:read`) || (source === 'suppressions' && mayRead(SUPPORT_RIGHT)),
  )
  const people = await findPeople(app, accountId, q, { limit: MAX_FOUND, sources })
  const isAbsent = emails.length === 0 && people.length === 0
  return {
    emails: emails.map((email) => hideContent(actor, emailRowWire(email, maxAttempts))),
    people: people.map(({ address, name = null, lastEmailAt = null }) => ({
      address,
      name,
      last_email_at: isoTimeOrNull(lastEmailAt),
    })),
    ...items,
    closest: isAbsent ? await findClosest(app, accountId, q, MAX_CLOSEST) : [],
    since: isoTimeOrNull(findOldestTime(app.db, accountId) ?? null),
  }
}
