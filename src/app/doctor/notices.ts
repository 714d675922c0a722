/**
 * @module Reports checks that turned bad, and those that are mended, to the operator, by log and mail. A finding must be
 * bad in two runs in a row. Each is reported once, and one that comes and goes at most once a day, with at most one
 * report that it is mended. What was reported is stored with the mail, so a restart repeats nothing.
 */
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import type { Tx } from '#platform/db/commit.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import type { Finding } from '../status-routes.ts'
import { isBad } from './context.ts'

interface Reported extends Pick<Finding, 'status' | 'message'> {
  readonly at: Millis
  /** It was reported as mended since then; the report is kept for the rest of the day. */
  readonly isMended: boolean
}

/** By check and subject. */
type Reports = Readonly<Record<string, Reported>>

const META_KEY = 'doctor_notices'
const REPEAT_INTERVAL_MS = hours(24)
/** Bounds the stored text and the mail; each check names at most some twenty things. */
const MAX_REPORTS = 300

const toKey = ({ check, subject }: Pick<Finding, 'check' | 'subject'>): string => `${check} ${subject ?? ''}`.trim()

/**
 * Creates the function that reports what changed since earlier runs. It resolves with false when something is newly bad,
 * which another run should soon confirm, and throws storage errors.
 */
export function createReporter(app: App): (findings: readonly Finding[]) => Promise<boolean> {
  /** What was bad in the last run. */
  let lastBad: ReadonlySet<string> = new Set()
  return async (findings) => {
    const now = app.clock.now()
    const bad = findings.filter(isBad)
    const confirmed = bad.filter((finding) => lastBad.has(toKey(finding)))
    lastBad = new Set(bad.map(toKey))
    const reports = readReports(app, now)
    const turnedBad = confirmed
      .filter((finding) => isNews(reports[toKey(finding)], finding, now))
      .slice(0, MAX_REPORTS - Object.keys(reports).length)
    const mended = findMended(reports, findings)
    if (turnedBad.length + mended.length > 0) {
      for (const { check, message, status } of turnedBad)
        app.log[status === 'failure' ? 'error' : 'warn']({ check }, `check found a problem: ${message}`)
      for (const [check] of mended) app.log.info({ check }, 'problem found by a check is mended')
      await report(app, turnedBad, mended, {
        ...reports,
        ...Object.fromEntries(mended.map(([key, reported]) => [key, { ...reported, isMended: true }])),
        ...Object.fromEntries(
          turnedBad.map((finding) => {
            const { status, message } = finding
            return [toKey(finding), { status, message, at: now, isMended: false } satisfies Reported]
          }),
        ),
      })
    }
    return confirmed.length === bad.length
  }
}

/** Those that were reported as bad, or were reported as mended within the last day. */
function readReports({ db }: App, now: Millis): Reports {
  const stored = JSON.parse(getMeta(db, META_KEY) ?? '{}') as Reports
  return Object.fromEntries(
    Object.entries(stored)
      // Times ahead of now were stored while the clock was wrong; without a limit they would suppress reports for long.
      .map(([key, reported]) => [key, { ...reported, at: Math.min(reported.at, now) }] as const)
      .filter(([, { at, isMended }]) => !isMended || now - at < REPEAT_INTERVAL_MS),
  )
}

/** Whether the operator is to be told that it is bad: for the first time, again after a day, or because it is worse. */
const isNews = (reported: Reported | undefined, { status }: Finding, now: Millis): boolean =>
  reported === undefined ||
  ((reported.isMended || (status === 'failure' && reported.status === 'warning')) &&
    now - reported.at >= REPEAT_INTERVAL_MS)

function findMended(reports: Reports, findings: readonly Finding[]): (readonly [string, Reported])[] {
  // A check that could not be made says nothing about what it found before.
  const open = new Set(findings.filter((found) => isBad(found) || found.status === 'skipped').map(toKey))
  return Object.entries(reports).filter(
    ([key, { isMended }]) => !isMended && !open.has(key) && !open.has(key.split(' ', 1)[0] ?? ''),
  )
}

/** Mails one list of all changes, if there is an address and a domain to send from; if that fails, the next run does. */
async function report(
  app: App,
  turnedBad: readonly Finding[],
  mended: readonly (readonly [string, Reported])[],
  after: Reports,
): Promise<void> {
  const { operatorEmail, hostname, publicUrl } = app.config
  const store = (tx: Tx) => setMeta(tx.db, META_KEY, JSON.stringify(after))
  if (operatorEmail === '') return app.commit.writeFromReserve(store)
  const subject = formatSubject(hostname, turnedBad, mended.length)
  const text = formatText(turnedBad, mended, publicUrl)
  await sendSystemMail(app, { to: [operatorEmail], about: [], subject, text }, store)
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
  mended: readonly (readonly [string, Reported])[],
  publicUrl: string,
): string =>
  [
    ...sortWorstFirst(turnedBad).map(({ check, status, message, fix }) =>
      `${status === 'failure' ? 'Failure' : 'Warning'} (${check}): ${message}\n${fix ?? ''}`.trimEnd(),
    ),
    ...mended.map(([key, { message }]) => `Mended (${key.split(' ', 1)[0]}). This is no longer so: ${message}`),
    `\`tassis doctor\` on the server checks again. Operators see all checks at ${new URL('/app/server', publicUrl).href}.${turnedBad.length > 0 ? ' You get a mail when this is mended.' : ''}`,
  ].join('\n\n')
