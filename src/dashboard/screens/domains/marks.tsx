/** @module States of domains and of their records, by word, shape and colour; and the steps of setting one up. */
import { VisuallyHidden } from '@mantine/core'
import type { Domain } from '#client/api.ts'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { describeDomain, listMarks, RECORD_NAMES } from './state.ts'

export function DomainStatus({ domain }: { readonly domain: Domain }) {
  const { tone, word, detail, until } = describeDomain(domain)
  return (
    <StatusLabel tone={tone}>
      {word}
      {until !== null && (
        <>
          : {detail} <Time iso={until} />
        </>
      )}
    </StatusLabel>
  )
}

export const RecordMarks = ({ domain }: { readonly domain: Domain }) => (
  <ul className="marks">
    {listMarks(domain).map(({ key, isVerified }) => (
      <li key={key}>
        <StatusLabel tone={isVerified ? 'good' : 'waiting'} title={isVerified ? 'Verified' : 'Not verified'}>
          {RECORD_NAMES[key]}
          <VisuallyHidden>{isVerified ? ', verified' : ', not verified'}</VisuallyHidden>
        </StatusLabel>
      </li>
    ))}
  </ul>
)

const STEPS = ['Name', 'DNS records', 'Test email'] as const

/** @param current number of the current step, from 1 */
export const Steps = ({ current }: { readonly current: number }) => (
  <ol className="steps" aria-label="Steps">
    {STEPS.map((label, index) => (
      <li key={label} {...(index + 1 === current && { 'aria-current': 'step' })}>
        {index + 1 < current ? (
          <StatusLabel tone="good">
            {index + 1}. {label}
            <VisuallyHidden>, done</VisuallyHidden>
          </StatusLabel>
        ) : (
          `${index + 1}. ${label}`
        )}
      </li>
    ))}
  </ol>
)
