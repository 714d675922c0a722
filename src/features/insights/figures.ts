/**
 * @module The figures of an account's last four weeks that a report is made of, by names such as `total.bounce_pct`. Numbers only: streams and sending
 * domains by number, recipients' domains by name only where they are large public providers, the others by number. Never an address, a subject, a
 * name that somebody gave, or anything of a message.
 */
import type { App } from '#features/app.ts'
import { giveWay, type Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { days } from '#platform/units.ts'
import { ALL_DOMAINS, dayOf } from '../events/figures.ts'
import { hourOf } from '../events/record.ts'
import { STREAM_FIGURES, STREAM_METRIC } from '../streams/figures.ts'
import { isBigProvider } from '../validate/lists.ts'

export interface Figures {
  readonly periodStart: Millis
  readonly periodEnd: Millis
  /** By name, in the order in which they are shown. Percentages have two decimals; a yes is 1, a no is 0. */
  readonly metrics: ReadonlyMap<string, number>
  /** What the numbers of `stream_1` and `sending_domain_1` stand for. For the report's readers: the model never sees it. */
  readonly names: ReadonlyMap<string, string>
}

export const WEEKS = 4
const DAYS = WEEKS * 7
const MOST_DOMAINS = 12
/** Of a day: the largest, which those of the period are among. */
const MOST_DOMAINS_OF_DAY = 50
const MOST_STREAMS = 20
const MOST_SENDING_DOMAINS = 20
/** Bounced emails that are looked at for their categories. */
const MOST_BOUNCES = 2000

/**
 * What reports hold against the figures, in the figures themselves so that a report may speak of them: percentages that receivers and other services
 * name as limits.
 */
export const GUIDELINES = {
  bounce_pct_warn: 2,
  bounce_pct_critical: 5,
  complaint_pct_warn: 0.1,
  complaint_pct_critical: 0.3,
  delivery_pct_warn: 95,
} as const

interface Sums {
  readonly sent: number
  readonly delivered: number
  readonly bounced: number
  readonly opens: number
  readonly clicks: number
  readonly openedEmails: number
  readonly clickedEmails: number
  readonly complaints: number
  readonly unsubscribes: number
}

const SUMS = `coalesce(sum(sent), 0) AS sent, coalesce(sum(delivered), 0) AS delivered, coalesce(sum(bounced), 0) AS bounced, coalesce(sum(opens), 0) AS opens,
  coalesce(sum(clicks), 0) AS clicks, coalesce(sum(opened_emails), 0) AS openedEmails, coalesce(sum(clicked_emails), 0) AS clickedEmails,
  coalesce(sum(complaints), 0) AS complaints, coalesce(sum(unsubscribes), 0) AS unsubscribes`

const sql = prepared((db) => ({
  sums: db.prepare<Sums, [number, number, number, string]>(
    `SELECT ${SUMS} FROM daily_figures WHERE account_id = ? AND day BETWEEN ? AND ? AND domain = ?`,
  ),
  domainsOfDay: db.prepare<{ domain: string; sent: number }, [number, number, number]>(
    `SELECT domain, sent FROM daily_figures WHERE account_id = ? AND day = ? AND domain > '' ORDER BY sent DESC LIMIT ?`,
  ),
  counter: db.prepare<{ value: number }, [number, string, number]>(
    'SELECT coalesce(sum(value), 0) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour >= ?',
  ),
  streams: db.prepare<{ id: number; slug: string }, [number, number]>(
    'SELECT id, slug FROM streams WHERE account_id = ? AND deleted_at IS NULL ORDER BY id LIMIT ?',
  ),
  // 4 is `bounced` of emails/status.ts.
  categories: db.prepare<{ category: string; n: number }, [number, number, number]>(
    `SELECT bounce_category AS category, count(*) AS n FROM recipients WHERE bounce_category IS NOT NULL AND email_id IN
     (SELECT id FROM emails WHERE account_id = ? AND status = 4 AND created_at >= ? AND sandbox = 0 ORDER BY created_at DESC LIMIT ?)
     GROUP BY 1 ORDER BY n DESC, 1`,
  ),
  sendingDomains: db.prepare<
    { domain: string; verified: number; spf: number; dkim: number; dmarc: number; returnPath: number },
    [number]
  >(
    `SELECT domain, verified_at IS NOT NULL AS verified, spf_verified AS spf, dkim_verified AS dkim, dmarc_verified AS dmarc,
     return_path_verified AS returnPath FROM domains WHERE account_id = ? AND deleted_at IS NULL ORDER BY id`,
  ),
  webhooks: db.prepare<{ total: number; off: number; failing: number; most: number }, [number]>(
    `SELECT count(*) AS total, coalesce(sum(off_by_failures), 0) AS off, coalesce(sum(is_active AND failure_count > 0), 0) AS failing,
     coalesce(max(failure_count), 0) AS most FROM webhooks WHERE account_id = ? AND deleted_at IS NULL`,
  ),
  people: db.prepare<{ users: number; single: number }, [number]>(
    `SELECT count(*) AS users, coalesce(sum(totp_enabled_at IS NULL), 0) AS single FROM members JOIN users ON users.id = user_id WHERE account_id = ?`,
  ),
  keys: db.prepare<{ keys: number; full: number }, [number]>(
    `SELECT count(*) AS keys, coalesce(sum(scopes LIKE '%"account:admin"%'), 0) AS full FROM api_keys WHERE account_id = ?`,
  ),
}))

/** The figures of an account up to now, of whole days in UTC. Gives way between the days. */
export async function figuresOf({ db, clock }: Pick<App, 'db' | 'clock'>, accountId: number): Promise<Figures> {
  const periodEnd = clock.now()
  const lastDay = dayOf(periodEnd)
  const firstDay = lastDay - DAYS + 1
  const periodStart = firstDay * days(1)
  const statements = sql(db)
  const metrics = new Map<string, number>([
    ['period.days', DAYS],
    ['period.weeks', WEEKS],
  ])
  for (const [name, value] of Object.entries(GUIDELINES)) metrics.set(`guideline.${name}`, value)

  const names = new Map<string, string>()
  const counted = (metric: string): number => statements.counter.get(accountId, metric, hourOf(periodStart))?.value ?? 0

  addSums(metrics, 'total', statements.sums.get(accountId, firstDay, lastDay, ALL_DOMAINS))
  for (const type of ['deferred', 'failed', 'uncertain']) metrics.set(`total.${type}`, counted(`event:${type}`))
  for (let week = 1; week <= WEEKS; week++) {
    const from = firstDay + (week - 1) * 7
    addSums(metrics, `week_${week}`, statements.sums.get(accountId, from, from + 6, ALL_DOMAINS))
  }

  const sentTo = new Map<string, number>()
  for (let day = firstDay; day <= lastDay; day++) {
    for (const { domain, sent } of statements.domainsOfDay.all(accountId, day, MOST_DOMAINS_OF_DAY)) {
      sentTo.set(domain, (sentTo.get(domain) ?? 0) + sent)
    }
    await giveWay()
  }
  const largest = [...sentTo].sort(([a, x], [b, y]) => y - x || a.localeCompare(b)).slice(0, MOST_DOMAINS)
  let others = 0
  for (const [domain] of largest) {
    const label = isBigProvider(domain) ? domain : `other_domain_${++others}`
    addSums(metrics, `recipients.${label}`, statements.sums.get(accountId, firstDay, lastDay, domain), SMALL)
    await giveWay()
  }

  for (const { category, n } of statements.categories.all(accountId, periodStart, MOST_BOUNCES)) {
    if (/^[a-z_]{1,40}$/.test(category)) metrics.set(`recent_bounces.${category}`, n)
  }
  await giveWay()

  for (const [index, { id, slug }] of statements.streams.all(accountId, MOST_STREAMS).entries()) {
    const [sent = 0, delivered = 0, bounced = 0, complaints = 0] = STREAM_FIGURES.map((figure) =>
      counted(`${STREAM_METRIC}${id}:${figure}`),
    )
    if (sent === 0) continue
    addSums(metrics, `stream_${index + 1}`, { ...NOTHING, sent, delivered, bounced, complaints }, SMALL)
    names.set(`stream_${index + 1}`, slug)
  }
  await giveWay()

  const domains = statements.sendingDomains.all(accountId)
  metrics.set('sending_domains.total', domains.length)
  metrics.set('sending_domains.unverified', domains.filter(({ verified }) => !verified).length)
  for (const [index, { domain, spf, dkim, dmarc, returnPath }] of domains.slice(0, MOST_SENDING_DOMAINS).entries()) {
    names.set(`sending_domain_${index + 1}`, domain)
    for (const [name, value] of Object.entries({ spf, dkim, dmarc, return_path: returnPath })) {
      metrics.set(`sending_domain_${index + 1}.${name}`, value)
    }
  }
  const webhooks = statements.webhooks.get(accountId)
  metrics.set('webhooks.total', webhooks?.total ?? 0)
  metrics.set('webhooks.switched_off_by_failures', webhooks?.off ?? 0)
  metrics.set('webhooks.failing', webhooks?.failing ?? 0)
  metrics.set('webhooks.most_failures_in_a_row', webhooks?.most ?? 0)
  const people = statements.people.get(accountId)
  metrics.set('access.users', people?.users ?? 0)
  metrics.set('access.users_without_second_factor', people?.single ?? 0)
  const keys = statements.keys.get(accountId)
  metrics.set('access.api_keys', keys?.keys ?? 0)
  metrics.set('access.api_keys_with_full_access', keys?.full ?? 0)
  return { periodStart, periodEnd, metrics, names }
}

const NOTHING: Sums = {
  sent: 0,
  delivered: 0,
  bounced: 0,
  opens: 0,
  clicks: 0,
  openedEmails: 0,
  clickedEmails: 0,
  complaints: 0,
  unsubscribes: 0,
}

/** Where the figures of opens and clicks are not kept, or would be too many to read. */
const SMALL = { engagement: false }

function addSums(
  metrics: Map<string, number>,
  group: string,
  sums: Sums | null,
  { engagement } = { engagement: true },
): void {
  const { sent, delivered, bounced, complaints, ...rest } = sums ?? NOTHING
  const add = (name: string, value: number | undefined) => {
    if (value !== undefined) metrics.set(`${group}.${name}`, value)
  }
  add('sent', sent)
  add('delivered', delivered)
  add('bounced', bounced)
  add('complaints', complaints)
  add('delivery_pct', percent(delivered, sent))
  add('bounce_pct', percent(bounced, delivered + bounced))
  add('complaint_pct', percent(complaints, delivered))
  if (!engagement) return
  add('opens', rest.opens)
  add('clicks', rest.clicks)
  add('unsubscribes', rest.unsubscribes)
  add('open_pct', percent(rest.openedEmails, delivered))
  add('click_pct', percent(rest.clickedEmails, delivered))
  add('unsubscribe_pct', percent(rest.unsubscribes, delivered))
}

/** With two decimals, at most 100: what came of mail from before the period may outnumber the mail in it. Undefined of nothing. */
const percent = (part: number, whole: number): number | undefined =>
  whole <= 0 ? undefined : Math.min(100, Math.round((Math.max(0, part) / whole) * 10_000) / 100)
