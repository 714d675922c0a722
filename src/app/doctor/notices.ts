/**
 * @module Notifies the operator by mail and log of checks that turned bad, and of those that are mended. A finding must
 * be bad in two runs. Each is mailed once; one that comes and goes is mailed at most once a day, with at most one mail
 * that it is mended. What was mailed is stored, so a restart repeats nothing.
 */
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { sendSystemMailToEach } from '#features/sending/system-mail/send.ts'
import type { Millis } from '#platform/clock.ts'
import { hours } from '#platform/units.ts'
import { type Finding, isBad } from './finding.ts'

/** What is known of a finding that is bad, or was bad within the last day. */
interface Notice {
  /** Since when it is bad; null: it is mended. */
  readonly since: Millis | null
  /** Whether a second run found it bad too. */
  readonly isConfirmed: boolean
  readonly status: 'warning' | 'failure'
  readonly message: string
  /** When the operator was last told that it is bad. */
  readonly mailedAt: Millis | null
  /** What the operator was told; null: nothing, or that it is mended. */
  readonly mailedStatus: 'warning' | 'failure' | null
}

/** By check and subject. */
type Notices = Readonly<Record<string, Notice>>

const META_KEY = 'doctor_notices'
/** Minimum time between two mails that the same finding is bad. */
const REPEAT_INTERVAL_MS = hours(24)
/** Bounds the stored text and the mail; each check names at most some twenty things. */
const MAX_NOTICES = 300

const toKey = ({ check, subject = '' }: Pick<Finding, 'check' | 'subject'>): string => `${check} ${subject}`.trim()

/**
 * Compares findings with those of earlier runs, and logs and mails what changed. Resolves with false when something is
 * newly bad, which another run should soon confirm. Throws storage errors.
 */
export async function notifyOfFindings(app: App, findings: readonly Finding[]): Promise<boolean> {
  const now = app.clock.now()
  const before = readNotices(app)
  const seen = updateNotices(before, findings, now)
  logChanges(app, before, seen)
  // Stored before the mail, whose idempotency key contains the times.
  await storeNotices(app, before, seen)
  const turnedBad = findings.filter((finding) => isBad(finding) && isDue(seen[toKey(finding)], now))
  const mended = Object.entries(seen).filter(([, { since, mailedStatus }]) => since === null && mailedStatus !== null)
  if (turnedBad.length + mended.length > 0 && (await mailOperator(app, seen, turnedBad, mended)))
    await storeNotices(app, seen, markMailed(seen, turnedBad, now))
  return Object.values(seen).every(({ since, isConfirmed }) => since === null || isConfirmed)
}

function updateNotices(before: Notices, findings: readonly Finding[], now: Millis): Notices {
  const after = new Map(Object.entries(before).map(([key, notice]) => [key, atMost(notice, now)]))
  const bad = new Map(findings.filter(isBad).map((finding) => [toKey(finding), finding]))
  // A check that could not be made says nothing about what it found before.
  const unknown = new Set(findings.filter(({ status }) => status === 'skipped').map(toKey))
  for (const [key, notice] of after) {
    const [check = ''] = key.split(' ', 1)
    if (bad.has(key) || unknown.has(key) || unknown.has(check)) continue
    const isRecent = notice.mailedAt !== null && now - notice.mailedAt < REPEAT_INTERVAL_MS
    if (notice.mailedStatus !== null || isRecent) after.set(key, { ...notice, since: null, isConfirmed: false })
    else after.delete(key)
  }
  for (const [key, { status, message }] of bad) {
    const known = after.get(key)
    if (!known && after.size >= MAX_NOTICES) continue
    after.set(key, {
      since: known?.since ?? now,
      isConfirmed: known !== undefined && known.since !== null,
      status: status === 'failure' ? 'failure' : 'warning',
      message,
      mailedAt: known?.mailedAt ?? null,
      mailedStatus: known?.mailedStatus ?? null,
    })
  }
  return Object.fromEntries(after)
}

/** Times ahead of now were stored while the clock was wrong; without a limit they would suppress mail for long. */
const atMost = (notice: Notice, now: Millis): Notice => ({
  ...notice,
  since: notice.since === null ? null : Math.min(notice.since, now),
  mailedAt: notice.mailedAt === null ? null : Math.min(notice.mailedAt, now),
})

/** Whether the operator is to be told now that it is bad: for the first time, again after a day, or because it is worse. */
function isDue(notice: Notice | undefined, now: Millis): boolean {
  if (!notice?.isConfirmed) return false
  const isNews = notice.mailedStatus === null || (notice.status === 'failure' && notice.mailedStatus === 'warning')
  return isNews && (notice.mailedAt === null || now - notice.mailedAt >= REPEAT_INTERVAL_MS)
}

function markMailed(seen: Notices, turnedBad: readonly Finding[], now: Millis): Notices {
  const mailed = new Set(turnedBad.map(toKey))
  return Object.fromEntries(
    Object.entries(seen).map(([key, notice]) => {
      if (mailed.has(key)) return [key, { ...notice, mailedAt: now, mailedStatus: notice.status }]
      return [key, notice.since === null ? { ...notice, mailedStatus: null } : notice]
    }),
  )
}

function logChanges({ log }: App, before: Notices, seen: Notices): void {
  for (const [key, { since, isConfirmed, status, message }] of Object.entries(seen)) {
    const wasConfirmed = before[key]?.isConfirmed === true
    if (isConfirmed && !wasConfirmed)
      log[status === 'failure' ? 'error' : 'warn']({ check: key }, `check found a problem: ${message}`)
    else if (since === null && wasConfirmed) log.info({ check: key }, 'problem found by a check is mended')
  }
}

const readNotices = ({ db }: App): Notices => JSON.parse(getMeta(db, META_KEY) ?? '{}') as Notices

async function storeNotices(app: App, before: Notices, after: Notices): Promise<void> {
  const text = JSON.stringify(after)
  if (text === JSON.stringify(before)) return
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, META_KEY, text))
}

/** Mails one list of all changes; false when there is no address, or no domain to send from. */
function mailOperator(
  app: App,
  seen: Notices,
  turnedBad: readonly Finding[],
  mended: readonly (readonly [string, Notice])[],
): Promise<boolean> {
  const { operatorEmail, hostname, publicUrl } = app.config
  if (operatorEmail === '') return Promise.resolve(false)
  // The times make it another mail when the same finding turns bad again.
  const key = [
    ...turnedBad.map((finding) => `${toKey(finding)} ${finding.status} ${seen[toKey(finding)]?.since}`),
    ...mended.map(([name, { mailedAt }]) => `${name} mended ${mailedAt}`),
  ].join(',')
  return sendSystemMailToEach(
    app,
    [operatorEmail],
    {
      about: [],
      subject: formatSubject(hostname, turnedBad, mended.length),
      text: formatText(turnedBad, mended, publicUrl),
    },
    () => `doctor ${key}`,
  )
}

function formatSubject(hostname: string, turnedBad: readonly Finding[], mendedCount: number): string {
  const [worst] = sortWorstFirst(turnedBad)
  if (!worst) return `${hostname}: mended (${mendedCount})`
  return turnedBad.length === 1
    ? `${hostname}: ${worst.check} ${worst.status}`
    : `${hostname}: ${turnedBad.length} problems`
}

const sortWorstFirst = (findings: readonly Finding[]): Finding[] =>
  findings.toSorted((a, b) => Number(b.status === 'failure') - Number(a.status === 'failure'))

const formatText = (
  turnedBad: readonly Finding[],
  mended: readonly (readonly [string, Notice])[],
  publicUrl: string,
): string =>
  [
    ...sortWorstFirst(turnedBad).map(({ check, status, message, fix }) =>
      `${status === 'failure' ? 'Failure' : 'Warning'} (${check}): ${message}\n${fix ?? ''}`.trimEnd(),
    ),
    ...mended.map(([key, { message }]) => `Mended (${key.split(' ', 1)[0]}). This is no longer so: ${message}`),
    `\`tassis doctor\` on the server checks again. Operators see all checks at ${new URL('/app/server', publicUrl).href}.${turnedBad.length > 0 ? ' You get a mail when this is mended.' : ''}`,
  ].join('\n\n')
