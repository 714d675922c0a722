/** @module Shares and states of the operator's screens in words. */
import type { OperatorDoctor } from '#client/operator-api.ts'

export type DoctorFinding = OperatorDoctor['findings'][number]

/** Parts of a whole in percent; a dash when there is no whole. */
export const formatPercent = (part: number, whole: number): string =>
  whole <= 0 ? '–' : `${Math.round((100 * part) / whole)} %`

const KIND_NAMES: Readonly<Record<string, string>> = {
  content: 'Content of sent mail',
  events: 'Event log',
  inbound: 'Received mail',
  logs: 'Emails',
  audit: 'Audit log',
}

const GROUP_NAMES: Readonly<Record<string, string>> = {
  logs: 'Emails and their status',
  events: 'Event log',
  figures: 'Counters and daily statistics',
  webhooks: 'Webhooks and their history',
  contacts: 'Contacts and suppressions',
  inbound: 'Received mail',
  audit: 'Audit log',
  other: 'Everything else',
}

const SOURCE_NAMES: Readonly<Record<string, string>> = {
  reputation: 'Bounces and complaints',
  scam_classifier: 'Content of its mail',
  registration_burst: 'Burst of registrations',
  admin: 'An operator',
}

/** A kind of data that is retained. Unknown names are shown as they are. */
export const toKindName = (kind: string): string => KIND_NAMES[kind] ?? kind
export const toGroupName = (group: string): string => GROUP_NAMES[group] ?? group
export const toSourceName = (source: string): string => SOURCE_NAMES[source] ?? source

/** A value from a finding as short text: a list by its elements, other structures as JSON. */
export function toDetailText(value: unknown): string {
  if (Array.isArray(value)) return value.map(toDetailText).join(', ')
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}

const isBad = ({ status }: DoctorFinding): boolean => status === 'warning' || status === 'failure'

/** Failures first. Delivery alerts have a section of their own, with more about them. */
export const listBad = (findings: readonly DoctorFinding[]): DoctorFinding[] =>
  findings
    .filter((finding) => isBad(finding) && finding.check !== 'delivery_alerts')
    .sort((a, b) => Number(b.status === 'failure') - Number(a.status === 'failure'))

export const listOther = (findings: readonly DoctorFinding[]): DoctorFinding[] =>
  findings.filter((finding) => !isBad(finding))

export function describeOther(others: readonly DoctorFinding[]): string {
  const well = others.filter(({ status }) => status === 'ok').length
  return `${well} well, ${others.length - well} not made`
}

export const toWords = (check: string): string => check.replaceAll('_', ' ')
