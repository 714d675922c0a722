/**
 * @module Outcomes of attempts and complaints by provider, outgoing address and UTC day, with the replies behind them:
 * for the reputation of our addresses, warm-ups and pools. Counted in the transaction of the outcome and written once
 * per group commit. The only writer of `provider_outcomes`.
 */
import type { Database } from 'bun:sqlite'
import { isIP } from 'node:net'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Config } from '#platform/settings/config.ts'
import { parseOutboundSource } from '#platform/settings/outbound-source.ts'
import type { Millis } from '#platform/units.ts'
import type { AttemptSession } from '../protocol.ts'
import type { TrafficOutcome } from './limits.ts'
import type { Pair } from './pair.ts'
import { labelProvider, OVERFLOW_PROVIDER, registryOf, SMARTHOST_PROVIDER } from './registry.ts'

/** For how many days outcomes and replies are stored. */
export const OUTCOME_DAYS = 90

/** How an attempt ended. */
export interface CountedOutcome {
  readonly outcome: TrafficOutcome
  /** Why it was not accepted: the reply, or the rule or category in its place. */
  readonly reply?: string
  /** Whether the reply blames our address or set-up. */
  readonly isBlocked?: boolean
  readonly session?: Pick<AttemptSession, 'localAddress'> | undefined
}

/** Begins the keys that are passed to `Tx.add`; those of hourly counters begin with a digit. */
const KEY_PREFIX = 'p'
/** Distinct replies of each kind per pair and day; the others are counted together, without their text. */
const MAX_REPLIES = 5
const MAX_REPLY_LENGTH = 200
/** Longer words with a digit are ids of a session, message or queue, except addresses of hosts and status codes. */
const MAX_PLAIN_WORD_LENGTH = 9

const sql = prepareStatements((db) => ({
  add: db.prepare<unknown, [Readonly<Record<string, string | number>>]>(
    `INSERT INTO provider_outcomes (day, source, provider, outcome, is_blocked, reply, count)
     SELECT $day, $source, $provider, $outcome, $isBlocked,
       iif(count(*) < ${MAX_REPLIES} OR sum(reply = $reply) > 0, $reply, ''), $count FROM provider_outcomes
     WHERE day = $day AND source = $source AND provider = $provider AND outcome = $outcome AND is_blocked = $isBlocked AND reply <> ''
     ON CONFLICT DO UPDATE SET count = count + excluded.count`,
  ),
  blocked: db.prepare<{ attempted: number; blocked: number }, [number, string, string]>(
    `SELECT coalesce(sum(count), 0) AS attempted, coalesce(sum(count * is_blocked), 0) AS blocked
     FROM provider_outcomes WHERE day IN (?1 - 1, ?1) AND source = ? AND provider = ? AND outcome <> 'complaints'`,
  ),
  delivered: db.prepare<{ sendingIp: string | null; host: string | null; isRelayed: number | null }, [number, number]>(
    `SELECT sending_ip AS sendingIp, data->>'remote_mta' AS host, data->>'relay' AS isRelayed FROM recipients
     LEFT JOIN events ON events.email_id = recipients.email_id AND recipient_id = recipients.id AND type = ${toEventCode('delivered')}
     WHERE recipients.id = ? AND recipients.email_id = ? LIMIT 1`,
  ),
}))

/** Counts an outcome in its transaction. Servers of this process are not counted. */
export function countOutcome(tx: Tx, pair: Pair, counted: CountedOutcome, now: Millis): void {
  if (pair.provider.isLocal) return
  const { outcome, reply, isBlocked, session } = counted
  // After its IPv4 addresses, those of IPv6 are dialled from our address of that family.
  const { localAddress = '' } = session ?? {}
  const isOther = isIP(pair.sourceIp) * isIP(localAddress) === 4 * 6
  const source = isOther ? localAddress : pair.sourceIp
  const key = `${pair.dayOf(now)}|${source}|${labelProvider(pair.provider)}`
  tx.add(`${KEY_PREFIX}${key}|${outcome}|${isBlocked ? 1 : 0}|${reply === undefined ? '' : summariseReply(reply)}`, 1)
}

/** Counts the complaint of a recipient on its day, at the provider and for the address of the accepted message. */
export function countProviderComplaint(
  tx: Tx,
  config: Config,
  recipient: { readonly id: number; readonly emailId: number },
  at: Millis,
): void {
  const { sendingIp, host, isRelayed } = sql(tx.db).delivered.get(recipient.id, recipient.emailId) ?? {}
  const source = config.outboundIps.some((item) => parseOutboundSource(item)?.ip === sendingIp) ? sendingIp : ''
  const relay = config.delivery === 'relay' ? SMARTHOST_PROVIDER : OVERFLOW_PROVIDER
  const [name = ''] = host?.split(' ', 1) ?? []
  const provider = isRelayed ? relay : labelProvider(registryOf(config).findProvider(name, [{ host: name }]))
  tx.add(`${KEY_PREFIX}${dayOf(at)}|${source}|${provider}|complaints|0|`, 1)
}

/** Part of the Committer's `flush`: writes the gathered additions. */
export function flushDailyOutcomes(db: Database, deltas: ReadonlyMap<string, number>): void {
  for (const [key, count] of deltas) {
    if (!key.startsWith(KEY_PREFIX)) continue
    const [day, source = '', provider = '', outcome = '', isBlocked, reply = ''] = key.slice(1).split('|')
    sql(db).add.run({ day: Number(day), source, provider, outcome, isBlocked: Number(isBlocked), reply, count })
  }
}

/** A reply without what differs from message to message, or names a person: addresses, ids, queries of URLs. */
export const summariseReply = (reply: string): string =>
  reply
    .slice(0, 2 * MAX_REPLY_LENGTH)
    .split(/[\s|]+/)
    .map(summariseWord)
    .join(' ')
    .slice(0, MAX_REPLY_LENGTH)
    .trim()
    .toWellFormed()

function summariseWord(word: string): string {
  if (/@|%40/.test(word) || (word.startsWith('<') && word.endsWith('>'))) return '<address>'
  if (/^\(?https?:/i.test(word)) return word.split('?', 1)[0] ?? ''
  const isId = word.length > MAX_PLAIN_WORD_LENGTH && /\d/.test(word) && isIP(word.replace(/[^\da-f.:]/gi, '')) === 0
  return isId ? '…' : word
}

/** What makes mail leave from another address of a pool: a hundredth of the attempts, and not only one or two. */
export const BLOCKED_FRACTION = 0.01
const MIN_BLOCKED = 5

/** Whether the provider blocked mail from the address of a pair often, yesterday or today. */
export function isOftenBlocked(db: Database, { provider, sourceIp }: Pair, now: Millis): boolean {
  const { attempted = 0, blocked = 0 } = sql(db).blocked.get(dayOf(now), sourceIp, labelProvider(provider)) ?? {}
  return blocked >= Math.max(MIN_BLOCKED, attempted * BLOCKED_FRACTION)
}
