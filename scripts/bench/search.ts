/** @module Searches: `q` of `GET /v1/emails`, and `GET /v1/search`, one request after another on an idle service. */
import { openApp } from '#app/create.ts'
import { type Benchmark, latencyFigures, type Values } from '#bench/measure.ts'
import { readUsage, startService } from '#bench/processes.ts'
import { indexPendingEmails } from '#features/sending/queue/search.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createGet, measureLatency } from './lists.ts'
import { choosePerson, describePerson, EMAILS_PER_PERSON, storeMail } from './search-mail.ts'

const REQUESTS = 100
const SETTLE_MS = 1000
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'

interface Search {
  readonly name: string
  readonly title: string
  /** @param n number of the request @param address of a recipient */
  path(n: number, address: string): string
}

const q = (text: string): string => `/v1/emails?${new URLSearchParams({ q: text })}`

export const SEARCHES: readonly Search[] = [
  { name: 'letter', title: 'a letter', path: (n) => q(LETTERS.charAt(n % LETTERS.length)) },
  { name: 'letters', title: 'three letters of an address', path: (_, address) => q(address.slice(0, 3)) },
  { name: 'address', title: 'an address', path: (_, address) => q(address) },
  { name: 'domain', title: '@domain', path: (_, address) => q(address.slice(address.indexOf('@'))) },
  { name: 'subject', title: 'a word of subjects', path: (n) => q(['invoice', 'passw', 'rechn', 'order'][n % 4] ?? '') },
  { name: 'name', title: 'first and last name', path: (n) => q(describePerson(n).name) },
  { name: 'number', title: 'a number in one subject', path: (n) => q(String(100_000 + n * 7919)) },
  { name: 'absent', title: 'an absent word', path: (n) => q(`zzq${n}`) },
  { name: 'rare_and_common', title: 'an absent and a common word', path: (n) => q(`order zzq${n}`) },
  {
    name: 'closest',
    title: '/v1/search, an absent address',
    path: (n, address) => `/v1/search?${new URLSearchParams({ q: address.replace(/(?<=^.{3})/, n % 2 ? 'zx' : 'x') })}`,
  },
  { name: 'all', title: '/v1/search, three letters', path: (_, address) => `/v1/search?q=${address.slice(0, 3)}` },
]

/** @param emails number of emails stored */
export const createSearchBenchmark = (emails: number): Benchmark => ({
  name: 'search',
  description: `Searches among ${emails} emails of 51 accounts, of which one has four fifths.`,
  figures: [...SEARCHES.flatMap(({ name, title }) => latencyFigures(name, title)), ['rss_mib', 'RSS MiB', 0]],
  async prepare({ create, progress }) {
    const { config, dataDir, key } = await create('search')
    const opened = openApp(config)
    try {
      const { app } = opened
      const domain = app.db.query<{ id: number; accountId: number }, []>(
        'SELECT id, account_id AS accountId FROM domains',
      )
      const { id = 0, accountId = 0 } = domain.get() ?? {}
      await storeMail(app, accountId, id, emails)
      progress('indexing')
      await indexPendingEmails(app)
    } finally {
      await opened.close()
    }
    return [{ title: 'runs', run: () => runSearches(dataDir, key, emails) }]
  },
})

export async function runSearches(dataDir: string, key: string, emails: number): Promise<Values> {
  await using service = await startService(dataDir)
  await systemClock.sleep(SETTLE_MS)
  const people = Math.ceil(emails / EMAILS_PER_PERSON)
  const values: Record<string, number> = {}
  for (const { name, path } of SEARCHES) {
    const requests = Array.from({ length: REQUESTS }, (_, n) => {
      const { address } = describePerson(choosePerson(Math.ceil((emails * (n + 1)) / REQUESTS), people))
      return createGet(path(n, address), key)
    })
    Object.assign(values, await measureLatency(name, service.port, requests))
  }
  return { ...values, rss_mib: readUsage(service.pid).rssMiB }
}
