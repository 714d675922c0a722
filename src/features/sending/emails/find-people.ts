/**
 * @module Finds people for a search over everything: recipients, contacts and suppressed addresses; and, for an address
 * or a name that has no mail, addresses of recipients that differ from it by one or two typing errors.
 */
import type { Database } from 'bun:sqlite'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import {
  ALL_ROWS,
  buildMatch,
  createPersonTest,
  type EmailSearch,
  listAddresses,
  listShards,
} from '#features/sending/queue/search.ts'
import { toSuppressionKey } from '#features/setup/suppression-store/check.ts'
import { isErasedKey } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { scanMatches, updateIndex } from './search-list.ts'

/** Emails whose recipients are read: the newest. */
const MAX_EMAILS_READ = 300
const MAX_RECIPIENTS_READ = 3000

type RecipientRow = { readonly address: string; readonly mailbox: string | null; readonly at: Millis }

const sql = prepareStatements((db) => ({
  recipients: db.prepare<RecipientRow, [string, number]>(
    `SELECT address, mailbox, created_at AS at FROM json_each(?) CROSS JOIN recipients ON email_id = json_each.value
     JOIN emails ON emails.id = email_id ORDER BY email_id DESC LIMIT ?`,
  ),
  contacts: db.prepare<{ address: string }, [number, string, string, number]>(
    `SELECT DISTINCT address_key AS address FROM contacts WHERE account_id = ? AND address_key >= ? AND address_key < ?
     ORDER BY address_key LIMIT ?`,
  ),
  suppressions: db.prepare<{ address: string }, [number, string, string, number]>(
    'SELECT DISTINCT address FROM suppressions WHERE account_id = ? AND address >= ? AND address < ? ORDER BY address LIMIT ?',
  ),
  oldest: db.prepare<{ at: Millis }, [number]>(
    'SELECT created_at AS at FROM emails WHERE account_id = ? ORDER BY created_at LIMIT 1',
  ),
}))

export interface Person {
  readonly address: string
  /** As their newest email names them. */
  readonly name: string | undefined
  readonly lastEmailAt: Millis | undefined
}

/** When the oldest stored email of an account was accepted. */
export const findOldestTime = (db: Database, accountId: number): Millis | undefined => sql(db).oldest.get(accountId)?.at

/** @param sources lists whose addresses are people too, if they begin so */
export async function findPeople(
  app: App,
  accountId: number,
  text: string,
  { limit, sources }: { readonly limit: number; readonly sources: readonly ('contacts' | 'suppressions')[] },
): Promise<Person[]> {
  const isFound = createPersonTest(text)
  const people = new Map<string, Person>()
  for (const row of await readRecipients(app, accountId, { person: text }, MAX_EMAILS_READ)) {
    const key = row.address.toLowerCase()
    if (!people.has(key) && isFound(row.address, row.mailbox ?? '')) people.set(key, toPerson(row))
  }
  const beginning = toSuppressionKey(text)
  for (const source of /[\s<>]/.test(beginning) ? [] : sources)
    for (const { address } of sql(app.db)[source].all(accountId, beginning, `${beginning}\u{10ffff}`, limit)) {
      if (people.has(address) || people.size >= limit || isErasedKey(address)) continue
      people.set(
        address,
        (await findPerson(app, accountId, address)) ?? { address, name: undefined, lastEmailAt: undefined },
      )
    }
  return [...people.values()].slice(0, limit)
}

/** Recipients of the newest emails that match. */
async function readRecipients(
  app: App,
  accountId: number,
  search: EmailSearch,
  limit: number,
): Promise<RecipientRow[]> {
  const match = buildMatch(accountId, search)
  await updateIndex(app)
  const found: number[] = []
  await scanMatches(app, { accountId, match }, ALL_ROWS, (ids) => {
    found.push(...ids.slice(0, limit - found.length))
    return found.length >= limit
  })
  return sql(app.db).recipients.all(JSON.stringify(found), MAX_RECIPIENTS_READ)
}

const toPerson = ({ address, mailbox, at }: RecipientRow): Person => {
  const parsed = mailbox === null ? undefined : parseMailbox(mailbox)
  return { address, name: parsed?.kind === 'ok' ? parsed.name : undefined, lastEmailAt: at }
}

/** The recipient with this address, in any case; undefined if none has it. */
async function findPerson(app: App, accountId: number, address: string): Promise<Person | undefined> {
  if (parseMailbox(address).kind !== 'ok') return undefined
  const rows = await readRecipients(app, accountId, { to: address }, 1)
  const row = rows.find((other) => other.address.toLowerCase() === address.toLowerCase())
  return row && toPerson(row)
}

/** An address, or a name of one word. */
const MAX_SPELLED_LENGTH = 100
const MIN_SPELLED_LENGTH = 3
/** Beginnings that are looked up, in some 50 µs each, and addresses that are compared. */
const MAX_LOOK_UPS = 1200
const MAX_COMPARED = 4000
const MAX_COMPARED_PER_LOOK_UP = 200
/** Addresses that are near, of which each is looked up: senders and the erased are among them. */
const MAX_CANDIDATES = 20
const MAX_CLOSEST_MS = 300
const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'

/**
 * Addresses of recipients that differ from a text by typing errors, the nearest first: from an address in both parts,
 * from another word in the local part. Reads the addresses that begin as the text might have begun, so it can miss
 * some of an account with millions.
 */
export async function findClosest(app: App, accountId: number, text: string, limit: number): Promise<string[]> {
  const searched = text.trim().toLowerCase()
  if (searched.length < MIN_SPELLED_LENGTH || searched.length > MAX_SPELLED_LENGTH) return []
  if (/\s/.test(searched) || searched.startsWith('@') || searched.split('@').length > 2) return []
  const distances = new Map<string, number>()
  const endMs = app.clock.monotonicMs() + MAX_CLOSEST_MS
  let compared = 0
  const shards = [...listShards(app.db, buildMatch(accountId, { person: searched }), ALL_ROWS)]
  const places = listBeginnings(searched).flatMap((beginnings) =>
    shards.flatMap(({ number }) => beginnings.map((beginning) => [number, beginning] as const)),
  )
  await app.fairScheduler.forEach(
    getTenantId(app.db, accountId),
    places.slice(0, MAX_LOOK_UPS),
    ([shard, beginning]) => {
      if (compared >= MAX_COMPARED || app.clock.monotonicMs() > endMs) return
      app.workBudget.charge(accountId, 1)
      for (const address of listAddresses(app.db, accountId, shard, beginning, MAX_COMPARED_PER_LOOK_UP)) {
        compared++
        const distance = measureErrors(searched, address)
        if (distance <= (searched.length < 5 ? 1 : 2)) distances.set(address, distance)
      }
    },
    { isNew: false },
  )
  const closest: string[] = []
  for (const [address] of [...distances].sort((a, b) => a[1] - b[1]).slice(0, MAX_CANDIDATES)) {
    if (closest.length === limit || app.clock.monotonicMs() > endMs) break
    const person = await findPerson(app, accountId, address)
    if (person) closest.push(person.address)
  }
  return closest
}

const MAX_BEGINNING_LENGTH = 12

/**
 * How the address may begin, in the order of their yield: if its domain has the error; a letter after the sixth; if two
 * letters are swapped or one is too many; a letter after the third; if one of the first two is missing or wrong.
 */
function listBeginnings(text: string): readonly (readonly string[])[] {
  const [a = '', b = '', c = ''] = text
  const local = text.includes('@') ? [text.slice(0, text.indexOf('@') + 1)] : []
  const edited = Array.from(text.slice(0, MAX_BEGINNING_LENGTH), (letter, k) => {
    const before = text.slice(0, k)
    return [before + text.slice(k + 1), before + text.slice(k + 1, k + 2) + letter + text.slice(k + 2)]
  })
  const swapped = [...new Set(edited.flat().map((variant) => variant.slice(0, MAX_BEGINNING_LENGTH)))]
  const other = [...LETTERS].flatMap((letter) => [
    ...[letter + text.slice(0, 4), letter + text.slice(1, 5)],
    ...[a + letter + text.slice(2, 5), a + letter + text.slice(1, 4)],
  ])
  return [local, [text.slice(0, 6)], swapped, [a + b + c], [a + b], other]
}

const TOO_FAR = 3

/** Typing errors between a searched text and an address: missing, further, wrong and swapped letters; TOO_FAR: three or more. */
function measureErrors(text: string, address: string): number {
  const [local = '', domain = ''] = text.split('@')
  const at = address.lastIndexOf('@')
  const errors = countErrors(local, address.slice(0, at))
  return domain === '' || errors >= TOO_FAR ? errors : errors + countErrors(domain, address.slice(at + 1))
}

function countErrors(a: string, b: string): number {
  if (Math.abs(a.length - b.length) >= TOO_FAR) return TOO_FAR
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const wrong = (above[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped =
        i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (before[j - 2] ?? 0) + 1 : TOO_FAR
      row.push(Math.min(wrong, swapped, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
    if (Math.min(...row) >= TOO_FAR) return TOO_FAR
    before = above
    above = row
  }
  return Math.min(TOO_FAR, above[b.length] ?? TOO_FAR)
}
