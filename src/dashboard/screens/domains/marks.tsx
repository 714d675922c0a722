/** @module The status of a domain by word, shape and colour; and the steps of setting one up. */
import { VisuallyHidden } from '@mantine/core'
import type { Domain } from '#client/api.ts'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { describeDomain } from './state.ts'

export function DomainStatus({ domain }: { readonly domain: Domain }) {
  const { tone, word, detail, until } = describeDomain(domain)
  return (
    <StatusLabel tone={tone} title={until === null ? detail : undefined}>
      {word}
      {until !== null && <Time before={`: ${detail} `} iso={until} />}
    </StatusLabel>
  )
}

const STEPS = ['Name', 'DNS records', 'Test email'] as const

/** @param current number of the current step, from 1 */
export const Steps = ({ current }: { readonly current: number }) => (
  <ol className="tabs plain-list" aria-label="Steps">
    {STEPS.map((label, index) => (
      <li key={label} className="tab" {...(index + 1 === current && { 'aria-current': 'step' })}>
        {index + 1 < current ? (
          <StatusLabel tone="good">
            {label}
            <VisuallyHidden>, done</VisuallyHidden>
          </StatusLabel>
        ) : (
          `${index + 1}. ${label}`
        )}
      </li>
    ))}
  </ol>
)
