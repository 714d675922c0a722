/** @module Which findings of the hourly checks are shown, and in which order. Pure. */
import type { DoctorFinding } from '#app/operator/model.ts'

const isBad = ({ status }: DoctorFinding): boolean => status === 'warning' || status === 'failure'

/** Failures first. Delivery alerts have a section of their own, with more about them. */
export const listBad = (findings: readonly DoctorFinding[]): DoctorFinding[] =>
  findings
    .filter((finding) => isBad(finding) && finding.check !== 'delivery_alerts')
    .sort((a, b) => Number(b.status === 'failure') - Number(a.status === 'failure'))

export const listOther = (findings: readonly DoctorFinding[]): DoctorFinding[] =>
  findings.filter((finding) => !isBad(finding))

/** `12 well, 3 not made` */
export function describeOther(others: readonly DoctorFinding[]): string {
  const well = others.filter(({ status }) => status === 'ok').length
  return `${well} well, ${others.length - well} not made`
}

/** `outgoing_port` as `outgoing port`. */
export const toWords = (check: string): string => check.replaceAll('_', ' ')
