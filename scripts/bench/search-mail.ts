/**
 * @module Stores mail as a shop sends it, for the benchmark of searches: people with names, of whom few get much mail and
 * most little, at domains of which few are large; subjects of some twenty kinds. Only emails and recipients are stored,
 * without bodies and events.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { days } from '#platform/units.ts'

const EMAILS_PER_TRANSACTION = 50_000
export const EMAILS_PER_PERSON = 5
const DOMAINS = 50_000
/** Of ten emails, those of the account that is searched. */
const OWN_OF_TEN = 8
const OTHER_ACCOUNTS = 50
const DAYS = 365

const split = (text: string): string[] => text.split(' ')
const FIRST_NAMES = split(
  'Bob Anna Carl Dora Emil Frieda Georg Hanna Igor Julia Klaus Laura Martin Nina Oscar Paula Quentin Rosa Stefan Tina Ulrich Vera Walter Xenia Yusuf Zoe Alice Bruno Clara David Elena Felix Greta Hugo Ida Jonas Karin Leo Marie Noah Olga Peter Rita Simon Thea Uwe Viktor Wanda Bobby Barbara',
)
const LAST_NAMES = split(
  'Brown Smith Meyer Schmidt Garcia Rossi Novak Nielsen Dubois Kowalski Silva Ivanova Tanaka Kim Nguyen Singh Cohen Murphy Jansen Lindqvist Bauer Fischer Weber Wagner Becker Hoffmann Koch Richter Klein Wolf Schroeder Neumann Schwarz Zimmermann Braun Krueger Hartmann Lange Werner Krause Lehmann Maier Koehler Herrmann Walter Kaiser Fuchs Lang Scholz Moeller Weiss Jung Hahn Vogel Keller Roth Frank Berger Beck Lorenz Baumann',
)
const LARGE_DOMAINS = split(
  'gmail.com outlook.com yahoo.com icloud.com hotmail.com gmx.de web.de orange.fr proton.me aol.com',
)
const SUBJECTS = [
  'Your order %d has been shipped',
  'Invoice %d for your order',
  'Reset your password',
  'Welcome to the shop, %s',
  'Your receipt from the shop %d',
  'Confirm your address',
  'News of this week: offers for %s',
  'Your order %d was delivered',
  'Ihre Rechnung %d für März',
  'A question about ticket %d',
]

/** Spreads numbers over 0 to 1, the same in each run. */
const spread = (n: number, salt: number): number => {
  const mixed = Math.imul(n ^ (n >>> 15) ^ Math.imul(salt, 0x9e3779b1), 0x85ebca6b)
  return (Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35) >>> 0) / 2 ** 32
}

const pick = <T>(all: readonly T[], share: number): T => all[Math.floor(share * all.length)] as T

export interface Person {
  readonly address: string
  readonly name: string
}

export function describePerson(n: number): Person {
  const first = pick(FIRST_NAMES, spread(n, 1))
  const last = pick(LAST_NAMES, spread(n, 2))
  const number = n.toString(36)
  const form = spread(n, 3)
  const local =
    form < 0.4 ? `${first}.${last}.${number}` : form < 0.7 ? `${first}${number}` : `${first[0]}${last}-${number}`
  const place = spread(n, 4)
  const domain =
    place < 0.6 ? pick(LARGE_DOMAINS, (place / 0.6) ** 2) : `firm${Math.floor(DOMAINS ** spread(n, 5))}.example`
  return { address: `${local.toLowerCase()}@${domain}`, name: `${first} ${last}` }
}

/** The number of the person who gets an email. */
export const choosePerson = (email: number, people: number): number => Math.floor(people * spread(email, 6) ** 1.5)

/** @param accountId of the account that is searched; others have a fifth of the mail */
export async function storeMail(app: App, accountId: number, domainId: number, emails: number): Promise<void> {
  const { db } = app
  const streamId = findStreamId(db, accountId, DEFAULT_STREAM) ?? 0
  const others = Array.from({ length: OTHER_ACCOUNTS }, (_, n) => addAccount(db, accountId, n))
  const now = app.clock.now()
  const people = Math.ceil(emails / EMAILS_PER_PERSON)
  const insertEmail = db.prepare(
    `INSERT INTO emails (id, uuid, account_id, domain_id, stream_id, status, sandbox, transactional, from_address, subject, recipient_count,
     size_bytes, created_at, updated_at) VALUES (?1, unhex(printf('%012x7000%012x8000', ?7, ?1)), ?2, ?3, ?4, ${statusCode('sent')}, 0, 1, ?5, ?6, 1, 1000, ?7, ?7)`,
  )
  const insertRecipient = db.prepare(
    `INSERT INTO recipients (id, email_id, kind, address, mailbox, status, attempts, delivered_at) VALUES (?1, ?1, 0, ?2, ?3, ${statusCode('sent')}, 1, ?4)`,
  )
  for (let first = 1; first <= emails; first += EMAILS_PER_TRANSACTION)
    await app.commit.write(() => {
      for (let id = first; id < first + EMAILS_PER_TRANSACTION && id <= emails; id++) {
        const { address, name } = describePerson(choosePerson(id, people))
        const at = now - Math.floor(days(DAYS) * (1 - id / emails))
        const subject = pick(SUBJECTS, spread(id, 7) ** 1.5)
          .replace('%d', String(id))
          .replace('%s', name)
        const owner = id % 10 < OWN_OF_TEN ? accountId : pick(others, spread(id, 8))
        insertEmail.run(id, owner, domainId, streamId, 'The Shop <orders@shop.example>', subject, at)
        insertRecipient.run(id, address, spread(id, 9) < 0.5 ? `${name} <${address}>` : null, at)
      }
    })
}

/** Adds an account like another one, which only has mail. */
function addAccount(db: Database, like: number, n: number): number {
  const columns = db
    .query<{ name: string }, []>(
      "SELECT name FROM pragma_table_info('accounts') WHERE name NOT IN ('id', 'uuid', 'name', 'email')",
    )
    .all()
    .map(({ name }) => name)
  const { id } = db
    .query<{ id: number }, [string, number]>(
      `INSERT INTO accounts (uuid, name, email, ${columns.join(', ')}) SELECT randomblob(16), ?1, ?1, ${columns.join(', ')} FROM accounts WHERE id = ?2 RETURNING id`,
    )
    .get(`Other ${n}`, like) as { id: number }
  return id
}
