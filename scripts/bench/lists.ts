/**
 * @module Lists: `GET /v1/emails` with different filters, and the redirects of tracked links, one request after another
 * on an otherwise idle service.
 */
import { openApp } from '#app/create.ts'
import { type Exchange, openHttp, runLoad } from '#bench/load.ts'
import { RECEIVER_DOMAIN, SENDER_DOMAIN } from '#bench/mails.ts'
import { type Benchmark, type Created, latencyFigures, type Values } from '#bench/measure.ts'
import { readUsage, startService } from '#bench/processes.ts'
import { accountTag, createLinkUrl, dayOf } from '#features/sending/tracking/tokens.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { storeEmails } from './stored-emails.ts'

const RECIPIENT_DOMAINS = 50_000
const REQUEST_COUNT = 300
const SETTLE_MS = 1000
const LINK_TARGET = 'https://shop.example/orders/4711?from=email&utm_source=bench'

interface Filter {
  readonly name: string
  readonly title: string
  /** The query of one request. @param to the address of a recipient @param n number of an email and its tag */
  query(to: string, n: number): Readonly<Record<string, string>>
}

const FILTERS: readonly Filter[] = [
  { name: 'none', title: 'no filter', query: () => ({}) },
  { name: 'recipient', title: 'to', query: (to) => ({ to }) },
  { name: 'bounced', title: 'to and status=bounced', query: (to) => ({ to, status: 'bounced' }) },
  { name: 'large_domain', title: 'to=@domain, the largest', query: () => ({ to: `@d1.${RECEIVER_DOMAIN}` }) },
  {
    name: 'rare_domain',
    title: 'to=@domain, rare ones',
    query: (_, n) => ({ to: `@d${1000 + (n % 1000)}.${RECEIVER_DOMAIN}` }),
  },
  { name: 'sender', title: 'from, of all emails', query: () => ({ from: `orders@${SENDER_DOMAIN}` }) },
  { name: 'domain', title: 'domain, of all emails', query: () => ({ domain: SENDER_DOMAIN }) },
  { name: 'subject', title: 'subject, one email', query: (_, n) => ({ subject: String(n).padStart(10, '0') }) },
  { name: 'common_subject', title: 'subject, all emails', query: () => ({ subject: 'your order' }) },
  { name: 'tag', title: 'tag', query: (_, n) => ({ tag: `tag-${n % 1000}` }) },
]

/** @param emails number of emails stored */
export const createListBenchmark = (emails: number): Benchmark => ({
  name: 'lists',
  description: `GET /v1/emails, 25 of ${emails} emails of one account, and redirects; one request after another.`,
  figures: [
    ...FILTERS.flatMap(({ name, title }) => latencyFigures(name, title)),
    ...latencyFigures('redirect', 'redirect of a tracked link'),
    ['rss_mib', 'RSS MiB', 0],
  ],
  async prepare({ create }) {
    const created = await create('lists', storeEmails({ emails, domains: RECIPIENT_DOMAINS }))
    const sample = await readSample(created.config, REQUEST_COUNT)
    return [{ title: 'runs', run: () => runLists(created, sample) }]
  },
})

interface Sample {
  readonly id: number
  readonly address: string
  readonly link: string
}

/** Reads emails evenly from all that are stored. */
export async function readSample(config: Config, count: number): Promise<readonly Sample[]> {
  const opened = openApp(config)
  try {
    const { db, keys } = opened.app
    const emails = db.query<{ n: number }, []>('SELECT count(*) AS n FROM emails').get()?.n ?? 0
    const find = db.query<{ id: number; uuid: Uint8Array; address: string; at: number }, [number]>(
      `SELECT recipients.id, accounts.uuid, address, emails.created_at AS at FROM recipients JOIN emails ON emails.id = email_id
       JOIN accounts ON accounts.id = account_id WHERE recipients.id = ?`,
    )
    return Array.from({ length: count }, (_, index) => {
      // Plus the index: addresses repeat at regular distances.
      const row = find.get(1 + ((Math.floor((emails * index) / count) + index) % emails))
      if (!row) throw new Error('the benchmark has no emails')
      const { id, uuid, address, at } = row
      const link = { account: accountTag(uuid), recipientId: id, day: dayOf(at) }
      return { id, address, link: createLinkUrl(keys.subkey('tracking'), '', link, LINK_TARGET) }
    })
  } finally {
    await opened.close()
  }
}

/** Measures one run. Only clicks and the service's own background work change the data directory. */
async function runLists({ dataDir, key }: Created, sample: readonly Sample[]): Promise<Values> {
  await using service = await startService(dataDir)
  await systemClock.sleep(SETTLE_MS)
  const values: Record<string, number> = {}
  for (const { name, query } of FILTERS) {
    const requests = sample.map(({ id, address }) =>
      createGet(`/v1/emails?${new URLSearchParams(query(address, id))}`, key),
    )
    Object.assign(values, await measureLatency(name, service.port, requests))
  }
  const links = sample.map(({ link }) => createGet(link))
  Object.assign(values, await measureLatency('redirect', service.port, links, 302))
  return { ...values, rss_mib: readUsage(service.pid).rssMiB }
}

const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'

/** Creates a GET request. @param key API key */
export const createGet = (path: string, key?: string): Exchange => [
  `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: ${BROWSER}\r\n${key === undefined ? '' : `Authorization: Bearer ${key}\r\n`}\r\n`,
]

/** Sends requests one after another. Returns the values of `latencyFigures`. */
export async function measureLatency(
  name: string,
  port: number,
  requests: readonly Exchange[],
  status = 200,
): Promise<Values> {
  const target = { open: openHttp(port), connections: 1, expected: `HTTP/1.1 ${status}` }
  const { p50Ms, p99Ms } = await runLoad(target, requests)
  return { [`${name}_p50_ms`]: p50Ms, [`${name}_p99_ms`]: p99Ms }
}
