/**
 * @module `GET /v1/operator/find`: the one thing that an operator names, in all accounts. Commands take a domain by its
 * name, an email by the beginning of its id, a key by its name; routes take ids and act for one account.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Account, listAccounts } from '#features/core/accounts/accounts.ts'
import { resolveAccount } from '#features/core/accounts/rows.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { findOperation } from '#features/core/operations/operations.ts'
import { findEmailIdsBetween, readEmailsByIds } from '#features/sending/emails/read.ts'
import { findByClientMessageId } from '#features/sending/queue/search.ts'
import { listApiKeys } from '#features/setup/api-keys/keys.ts'
import { findDomain, findDomainByName } from '#features/setup/domains/domains.ts'
import { validateDomainName } from '#features/setup/domains/name.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, StringEnum, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { toPrintable } from './cli/output.ts'

interface Found {
  readonly id: string
  readonly account: Account
  /** What tells it from others that match. */
  readonly label: string
}

interface Kind {
  readonly noun: string
  /** What to do if there is none. */
  readonly hint: string
  /** Those that `text` names, of these accounts. */
  readonly find: (app: App, text: string, accounts: readonly Account[]) => readonly Found[]
}

/** Emails that an error names, and one more, which says that there are more. */
const MAX_FOUND = 6

/** Those of these accounts that `text` names. */
const findEmails: Kind['find'] = ({ db }, text, accounts) =>
  readEmailsByIds(db, findIds(db, text, accounts)).flatMap(({ uuid, accountUuid, recipients: [first] }) => {
    const account = accounts.find((owner) => formatUuid(owner.uuid) === formatUuid(accountUuid))
    return account ? [{ id: formatUuid(uuid), account, label: first ? `to ${first.address}` : '' }] : []
  })

function findIds(db: Database, text: string, accounts: readonly Account[]): number[] {
  const range = parseUuidRange(text)
  const ids = range ? findEmailIdsBetween(db, ...range, MAX_FOUND) : []
  return ids.length > 0 || !isMessageId(text) ? ids : findIdsByMessageId(db, text, accounts)
}

const isMessageId = (text: string): boolean => /^<?[^@\s]+@[^@\s]+$/.test(text.trim())

/** Those whose client chose the Message-ID. */
function findIdsByMessageId(db: Database, text: string, accounts: readonly Account[]): number[] {
  const messageId = `<${text.trim().replace(/^<|>$/g, '')}>`
  return accounts.flatMap(({ id }) => findByClientMessageId(db, id, messageId, MAX_FOUND))
}

/** A UUIDv7 begins with its creation time: the first 8 digits cover 65.5 s, the first 12 one millisecond. */
const MIN_DIGITS = 8
const UUID_DIGITS = 32

/**
 * Returns the range of ids that begin with the digits of `text`, a prefix of an id or a Message-ID of ours; undefined
 * when the digits are too few, too many or not hexadecimal.
 */
function parseUuidRange(text: string): readonly [first: Uint8Array, last: Uint8Array] | undefined {
  const [id = '', domain] = text.trim().replace(/^</, '').split('@')
  const digits = id.replaceAll('-', '').toLowerCase()
  // Our Message-IDs have the whole id; a shorter one is that of a client.
  const minDigits = domain === undefined ? MIN_DIGITS : UUID_DIGITS
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < minDigits || digits.length > UUID_DIGITS) return undefined
  return [Uint8Array.fromHex(digits.padEnd(UUID_DIGITS, '0')), Uint8Array.fromHex(digits.padEnd(UUID_DIGITS, 'f'))]
}

/** What can be found, by the names of `kind`. */
const KINDS = {
  email: {
    noun: 'email',
    hint: '`tassis emails list` shows ids, `tassis emails list --to ADDRESS` those to an address',
    find: findEmails,
  },
  domain: {
    noun: 'domain',
    hint: '`tassis domains list` shows all, `tassis domains add` adds one',
    find: ({ db }, text, accounts) => {
      const uuid = parseUuid(text)
      const name = validateDomainName(text)
      return accounts.flatMap((account) => {
        const domain = uuid
          ? findDomain(db, account.id, uuid)
          : name.kind === 'ok'
            ? findDomainByName(db, account.id, name.domain)
            : undefined
        return domain ? [{ id: formatUuid(domain.uuid), account, label: domain.domain }] : []
      })
    },
  },
  operation: {
    noun: 'operation',
    hint: '`tassis operations` lists the newest',
    find: ({ db }, text, accounts) =>
      accounts.flatMap((account) => {
        const operation = findOperation(db, account.id, text)
        return operation ? [{ id: formatUuid(operation.uuid), account, label: operation.type }] : []
      }),
  },
  api_key: {
    noun: 'API key',
    hint: '`tassis keys list` shows all',
    find: ({ db }, text, accounts) => {
      const keys = accounts.flatMap((account) => listApiKeys(db, account.id).map((key) => ({ account, key })))
      const exact = keys.filter(
        ({ key: { id, keyPrefix } }) => id === text || keyPrefix === text.slice(0, keyPrefix.length),
      )
      const found = exact.length > 0 ? exact : keys.filter(({ key }) => key.name === text)
      return found.map(({ account, key }) => ({ id: key.id, account, label: `${key.keyPrefix}…, ${key.name}` }))
    },
  },
} as const satisfies Readonly<Record<string, Kind>>

type KindName = keyof typeof KINDS
const KIND_NAMES = Object.keys(KINDS) as [KindName, ...KindName[]]

/** Of several that match, those that the error names. */
const MAX_SHOWN = 5
const MAX_QUOTED_LENGTH = 80
const MAX_TEXT_LENGTH = 1024

const FindQuery = Type.Object({
  kind: StringEnum(KIND_NAMES, { description: 'What is searched.' }),
  text: Type.String({ minLength: 1, maxLength: MAX_TEXT_LENGTH, description: 'Id, name, or the beginning of an id.' }),
  account: Type.Optional(
    Type.String({ maxLength: MAX_TEXT_LENGTH, description: 'Id or name of the account; default: all accounts.' }),
  ),
})

const FoundThing = Type.Object({
  id: Uuid({ description: 'Id of what was found.' }),
  label: Type.String({ description: 'What tells it from others of its kind.' }),
  account_id: Uuid({ description: 'Id of its account.' }),
  account: Type.String({ description: 'Name of its account.' }),
})

export const findRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).get('/find', ({ query }) => dataBody(findOne(app, query)), {
    query: FindQuery,
    response: DataBody(FoundThing),
    detail: commandRoute('Find what an operator names', 'In all accounts.', {
      404: ['email_not_found', 'Nothing of this kind matches; the code names the kind.'],
      409: ['email_ambiguous', 'Several match, or several accounts have this name; the message names them.'],
    }),
  })

function findOne(app: App, { kind, text, account }: Static<typeof FindQuery>): Static<typeof FoundThing> {
  const accounts = account === undefined ? listAccounts(app.config, app.db) : [resolveAccount(app, account)]
  const { noun, hint, find }: Kind = KINDS[kind]
  const found = find(app, text.trim(), accounts)
  const [first, other] = found
  const quoted = `"${toPrintable(truncate(text, MAX_QUOTED_LENGTH))}"`
  if (!first) throw notFound(`${kind}_not_found`, `${quoted} matches no ${noun}; ${hint}.`)
  if (other) {
    const shown = found
      .slice(0, MAX_SHOWN)
      .map(({ id, label, account: { name } }) => `${id} (${toPrintable(label)}, account ${toPrintable(name)})`)
    throw conflict(
      `${kind}_ambiguous`,
      `${quoted} matches several; give the ID of one: ${shown.join(', ')}${found.length > MAX_SHOWN ? ', …' : ''}.`,
    )
  }
  const { id, label, account: owner } = first
  return { id, label, account_id: formatUuid(owner.uuid), account: owner.name }
}
