/** @module Checks of the certificates that the service gets itself. */
import { isoTime } from '#platform/http/envelope.ts'
import { type CertificateState, certificateStates } from '../../certificates/states.ts'
import type { DoctorContext } from '../context.ts'
import { failure, type NewFinding, ok, skipped, warning } from '../finding.ts'

const FIX =
  'Mend the cause (docs/certificates.md lists the reasons), then run `tassis certificates retry`; `tassis certificates list` shows the result.'
/** Accounts have any number of tracking hosts; those that are well are not listed. */
const MAX_TRACKING_FINDINGS = 20

/** One finding per host of the service; of tracking hosts, one per host with a problem. */
export function checkOrderedCertificates({ config, db, clock }: DoctorContext): NewFinding[] {
  const now = clock.now()
  const states = new Map(
    certificateStates({ config, db })
      .filter(({ source }) => source === 'acme')
      .map((state) => [state.host, state] as const),
  )
  const all = [...states.values()]
  const own = all.filter(({ use }) => use !== 'tracking').map((state) => describe(state, now))
  const tracking = all.filter(({ use }) => use === 'tracking').map((state) => describe(state, now))
  const bad = tracking.filter(({ status }) => status !== 'ok' && status !== 'skipped')
  return [...own, ...bad.slice(0, MAX_TRACKING_FINDINGS)]
}

function describe({ host, use, notAfter, warnAt, lastError }: CertificateState, now: number): NewFinding {
  // A tracking host may have left us without a word.
  const broken = use === 'tracking' ? warning : failure
  const cause = lastError === undefined ? '' : `: ${lastError.replace(/\.$/, '')}`
  if (notAfter === undefined || warnAt === undefined)
    return lastError === undefined
      ? skipped(`The first certificate for ${host} is being ordered.`, host)
      : broken(`There is no certificate for ${host}${cause}.`, FIX, host)
  const end = isoTime(notAfter).slice(0, 10)
  if (notAfter <= now) return broken(`The certificate for ${host} expired on ${end}${cause}.`, FIX, host)
  return warnAt <= now
    ? warning(`The certificate for ${host} expires on ${end} and could not be renewed${cause}.`, FIX, host)
    : ok(`The certificate for ${host} is valid until ${end}.`, host)
}
