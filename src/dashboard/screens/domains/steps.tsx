/** @module The steps of setting up a domain. */
import { VisuallyHidden } from '@mantine/core'
import { StatusLabel } from '../../parts/status.tsx'

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
