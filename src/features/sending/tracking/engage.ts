/**
 * @module Records an open or a click in one transaction: counts, link statistics, and an event if a person caused it
 * and the last event is not too recent. The only writer of `opens`, `link_clicks` and `click_marks`. Anyone who has a
 * message can repeat its links, so the number of events is limited. Records nothing for a deleted email or account, or
 * an erased recipient. Mail that a paused account sent earlier still counts.
 */
import type { Database } from 'bun:sqlite'
import { isbot } from 'isbot'
import type { App } from '#features/core/app/app.ts'
import { countDaily, countDomainOnly, domainOfAddress, ERASED_DOMAIN } from '#features/core/events/daily-stats.ts'
import { count, countCaptured, type EventData, FIRST_METRICS, MACHINE_METRICS } from '#features/core/events/record.ts'
import { recordEngaged } from '#features/sending/queue/settle.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
import { accountTag, dayOf, type TrackedRecipient } from './tokens.ts'

/** One load of a pixel, or one click. */
export interface Engagement {
  readonly recipient: TrackedRecipient
  /** The target of a click; undefined for an open. */
  readonly url: string | undefined
  readonly visitor: Visitor
  readonly ipAddress: string | null
  readonly userAgent: string | null
}

/** Clicks on one link of an email, by people unless stated otherwise. */
export interface LinkStatistics {
  readonly url: string
  readonly clicks: number
  /** Distinct UTC days with such clicks. */
  readonly uniqueClicks: number
  readonly machineClicks: number
  readonly lastClickedAt: Millis
}

const OPEN_EVENT_INTERVAL_MS = minutes(5)
const CLICK_EVENT_INTERVAL_MS = seconds(30)
/** Maximum number of events: opens per recipient, and clicks per recipient over all links. */
const MAX_EVENTS = 1000
const URL_HASH_BYTES = 8

/** The email that was opened or clicked, and its recipient. */
interface EngagedEmail {
  readonly accountUuid: Uint8Array
  readonly createdAt: Millis
  readonly emailId: number
  readonly accountId: number
  readonly isPrivate: number
  readonly sandbox: number
  readonly recipientCount: number
  readonly address: string
  /** Whether another recipient was erased: the links may name that person. */
  readonly hasErased: number
}

const sql = prepareStatements((db) => ({
  sender: db.prepare<EngagedEmail, [number]>(
    `SELECT accounts.uuid AS accountUuid, emails.created_at AS createdAt, email_id AS emailId, account_id AS accountId,
     tracking_privacy AS isPrivate, sandbox, recipient_count AS recipientCount, address,
     recipient_count > 1 AND EXISTS (SELECT 1 FROM recipients o WHERE o.email_id = emails.id AND o.address LIKE '%@${ERASED_DOMAIN}') AS hasErased
     FROM recipients JOIN emails ON emails.id = email_id JOIN accounts ON accounts.id = account_id
     WHERE recipients.id = ? AND accounts.deleted_at IS NULL AND address NOT LIKE '%@${ERASED_DOMAIN}'`,
  ),
  addOpen: db.prepare<{ events: number; lastEventAt: number | null }, [number, number, number]>(
    `INSERT INTO opens (recipient_id, human, machine) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET human = human + excluded.human, machine = machine + excluded.machine
     RETURNING events, last_event_at AS lastEventAt`,
  ),
  markOpen: db.prepare('UPDATE opens SET events = events + 1, last_event_at = ? WHERE recipient_id = ?'),
  // Event times never go back, so a day other than the last one is a new day.
  addHumanClick: db.prepare(
    `INSERT INTO link_clicks (email_id, url_hash, url, human, days, last_day, last_clicked_at) VALUES (?, ?, ?, 1, 1, ?, ?)
     ON CONFLICT DO UPDATE SET human = human + 1, days = days + (last_day IS NOT excluded.last_day), last_day = excluded.last_day,
     last_clicked_at = excluded.last_clicked_at`,
  ),
  addMachineClick: db.prepare(
    'INSERT INTO link_clicks (email_id, url_hash, url, machine) VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET machine = machine + 1',
  ),
  clickMark: db.prepare<{ lastEventAt: number }, [number, Uint8Array]>(
    'SELECT last_event_at AS lastEventAt FROM click_marks WHERE recipient_id = ? AND url_hash = ?',
  ),
  /** Reads one row per clicked link, at most MAX_EVENTS, since no more are added. */
  clickEvents: db.prepare<{ events: number | null }, [number]>(
    'SELECT SUM(events) AS events FROM click_marks WHERE recipient_id = ?',
  ),
  markClick: db.prepare(
    `INSERT INTO click_marks (recipient_id, url_hash, events, last_event_at) VALUES (?, ?, 1, ?)
     ON CONFLICT DO UPDATE SET events = events + 1, last_event_at = excluded.last_event_at`,
  ),
  // Other recipients of the email with an event of the same kind.
  openedBy: db.prepare<{ address: string }, [number, number]>(
    `SELECT address FROM recipients JOIN opens ON recipient_id = recipients.id WHERE email_id = ? AND recipients.id <> ? AND events > 0`,
  ),
  clickedBy: db.prepare<{ address: string }, [number, number]>(
    `SELECT address FROM recipients WHERE email_id = ? AND id <> ? AND EXISTS (SELECT 1 FROM click_marks WHERE recipient_id = recipients.id)`,
  ),
  links: db.prepare<LinkStatistics, [number]>(
    `SELECT url, human AS clicks, days AS uniqueClicks, machine AS machineClicks, last_clicked_at AS lastClickedAt FROM link_clicks WHERE email_id = ? AND human > 0
     ORDER BY human DESC, url`,
  ),
  deleteOpens: db.prepare('DELETE FROM opens WHERE recipient_id = ?'),
  deleteMarks: db.prepare('DELETE FROM click_marks WHERE recipient_id = ?'),
  deleteLinks: db.prepare('DELETE FROM link_clicks WHERE email_id = ?'),
}))

/** Counts an open or a click, and records its event if one is due. */
export function recordEngagement(app: Pick<App, 'eventTime'>, tx: Tx, engagement: Engagement): void {
  const { recipientId } = engagement.recipient
  const email = sql(tx.db).sender.get(recipientId)
  if (!email || !isSameRecipient(email, engagement.recipient)) return
  const at = app.eventTime()
  const type = engagement.url === undefined ? 'opened' : 'clicked'
  const dueEvent = type === 'opened' ? countOpen(tx, engagement, at) : countClick(tx, engagement, email, at)
  if (engagement.visitor === 'machine') {
    // Analytics, too, leave sandbox mail out of every statistic.
    if (email.sandbox === 0) count(tx, email.accountId, MACHINE_METRICS[type], at, 1)
    return
  }
  if (dueEvent === 'none') return
  if (email.sandbox === 0) addDailyStats(tx, engagement, email, at, dueEvent)
  else countCaptured(tx, email.accountId, type, at)
  recordEngaged(tx, {
    accountId: email.accountId,
    type,
    at,
    emailId: email.emailId,
    recipientId,
    data: createEventData(engagement, email),
  })
}

/** Also compares account and day: after a restored backup, new mail reuses row ids. */
const isSameRecipient = ({ accountUuid, createdAt }: EngagedEmail, { account, day }: TrackedRecipient): boolean =>
  accountTag(accountUuid) === account && dayOf(createdAt) === day

/** The links clicked in an email, most clicked first; without links that only machines followed. */
export const readLinkStatistics = (db: Database, emailId: number): LinkStatistics[] => sql(db).links.all(emailId)

/** Whether an event is due, and whether it is the recipient's first of its kind. */
type DueEvent = 'none' | 'first' | 'again'

/** Adds to the daily statistics: the event, and the email if this is its first open or click. */
function addDailyStats(
  tx: Tx,
  { recipient: { recipientId }, url }: Engagement,
  email: EngagedEmail,
  at: Millis,
  dueEvent: 'first' | 'again',
): void {
  const domainDay = { accountId: email.accountId, domain: domainOfAddress(email.address), at }
  countDaily(tx, domainDay, url === undefined ? 'opens' : 'clicks', 1)
  if (dueEvent === 'again') return
  const { openedBy, clickedBy } = sql(tx.db)
  const others =
    email.recipientCount === 1 ? [] : (url === undefined ? openedBy : clickedBy).all(email.emailId, recipientId)
  const field = url === undefined ? 'openedEmails' : 'clickedEmails'
  if (others.length === 0) {
    countDaily(tx, domainDay, field, 1)
    count(tx, email.accountId, url === undefined ? FIRST_METRICS.opened : FIRST_METRICS.clicked, at, 1)
  }
  // The account's sum already counts this email, but the statistics of this recipient's domain do not.
  else if (others.every(({ address }) => domainOfAddress(address) !== domainDay.domain))
    countDomainOnly(tx, domainDay, field, 1)
}

function countOpen(tx: Tx, { recipient: { recipientId }, visitor }: Engagement, at: Millis): DueEvent {
  const isHuman = visitor === 'human'
  const mark = sql(tx.db).addOpen.get(recipientId, isHuman ? 1 : 0, isHuman ? 0 : 1)
  if (!isHuman || isTooSoon(mark, at, OPEN_EVENT_INTERVAL_MS)) return 'none'
  if (mark !== null && mark.events >= MAX_EVENTS) return 'none'
  sql(tx.db).markOpen.run(at, recipientId)
  return (mark?.events ?? 0) === 0 ? 'first' : 'again'
}

function countClick(
  tx: Tx,
  { recipient: { recipientId }, url = '', visitor }: Engagement,
  { emailId, hasErased }: Pick<EngagedEmail, 'emailId' | 'hasErased'>,
  at: Millis,
): DueEvent {
  const statements = sql(tx.db)
  const hash = sha256(url).subarray(0, URL_HASH_BYTES)
  if (visitor === 'machine') {
    if (hasErased === 0) statements.addMachineClick.run(emailId, hash, url)
    return 'none'
  }
  if (hasErased === 0) statements.addHumanClick.run(emailId, hash, url, dayOf(at), at)
  if (isTooSoon(statements.clickMark.get(recipientId, hash), at, CLICK_EVENT_INTERVAL_MS)) return 'none'
  const eventCount = statements.clickEvents.get(recipientId)?.events ?? 0
  if (eventCount >= MAX_EVENTS) return 'none'
  statements.markClick.run(recipientId, hash, at)
  return eventCount === 0 ? 'first' : 'again'
}

const isTooSoon = (mark: { readonly lastEventAt: Millis | null } | null, at: Millis, intervalMs: number): boolean =>
  mark !== null && mark.lastEventAt !== null && at - mark.lastEventAt < intervalMs

const createEventData = (
  { url, ipAddress, userAgent }: Engagement,
  { isPrivate, hasErased }: Pick<EngagedEmail, 'isPrivate' | 'hasErased'>,
): EventData => ({
  ...(isPrivate === 0 && { ip_address: ipAddress, user_agent: userAgent }),
  ...(url !== undefined && hasErased === 0 && { link_url: url }),
})

/** isbot takes these for machines, because they do not look like browsers. But people read mail with them. */
const MAIL_PROGRAMS =
  /\b(?:airmail|bluemail|claws mail|delta ?chat|edison mail|em ?client|evolution|fairemail|foxmail|geary|k-9 mail|kmail|lotus-notes|mailbird|mailmate|mailspring|outlook-android|postbox|sparkdesktop|superhuman|sylpheed|trojita|yahoomobilemail|zimbradesktop)\b/i

/**
 * Scanners, gateways and image proxies, and the Edge of 2015 that Gmail claims to be when it prefetches images. isbot
 * knows many of them, but some only in other spellings, and some not inside a browser's user agent.
 */
const MAIL_MACHINES =
  /googleimageproxy|ggpht\.com|edge\/12\.246 (?:mozilla\/5\.0|gmail-content-sampling)|yahoomailproxy|seznamemailproxy|imageproxy|imageresizer|bingpreview|safelinks|exchange online protection|mailscanner|barracuda|proofpoint|ppspider|mimecast|symantec|messagelabs|brightmail|cloudmark|trend ?micro|ironport|cisco secure email|fireeye|trellix|mcafee|forcepoint|websense|sophos|fortinet|fortiguard|fortimail|bitdefender|avanan|check ?point|vade ?secure|hornetsecurity|spamtitan|zscaler|palo ?alto ?networks|kaspersky|clamav|libraesva|retarus|nospamproxy|trustwave|darktrace|ironscales|perception-point|urlscan|virustotal|phishtank|feedfetcher|gtmetrix|puppeteer|powershell/i

/** Headers that browsers and mail programs send when they prefetch. */
const PREFETCH_HEADERS = ['sec-purpose', 'purpose', 'x-purpose', 'x-moz'] as const
const PREFETCH = /prefetch|prerender|preview|instant/i

export type Visitor = 'human' | 'machine'

/** Who made a request. */
export function classifyVisitor(headers: Headers): Visitor {
  if (PREFETCH_HEADERS.some((name) => PREFETCH.test(headers.get(name) ?? ''))) return 'machine'
  const userAgent = (headers.get('user-agent') ?? '').slice(0, MAX_USER_AGENT_LENGTH).trim()
  if (userAgent === '' || MAIL_MACHINES.test(userAgent)) return 'machine'
  if (MAIL_PROGRAMS.test(userAgent)) return 'human'
  return isbot(userAgent) ? 'machine' : 'human'
}

/** Longer user agents are truncated before they are classified or stored. */
export const MAX_USER_AGENT_LENGTH = 512

/** Deletes the counts of opens and clicks of an email and its recipients. */
export function deleteEngagement(tx: Tx, emailId: number, recipientIds: readonly number[]): void {
  const { deleteOpens, deleteMarks, deleteLinks } = sql(tx.db)
  deleteLinks.run(emailId)
  for (const id of recipientIds) {
    deleteOpens.run(id)
    deleteMarks.run(id)
  }
}
