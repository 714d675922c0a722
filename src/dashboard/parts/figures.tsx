/** @module Numbers beside each other, each with its name. */
import { Paper, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { SmallLink } from './links.tsx'

export interface Figure {
  readonly label: string
  readonly value: number | string
  readonly note?: ReactNode
  /** The screen that has more about it. */
  readonly to?: string
  readonly search?: object
}

export const Figures = ({ figures }: { readonly figures: readonly Figure[] }) => (
  <dl className="figures">
    {figures.map(({ label, value, note, to, search }) => (
      <Paper key={label} withBorder p="sm">
        <Text component="dt" size="sm">
          {to === undefined ? (
            label
          ) : (
            <SmallLink to={to} {...(search && { search })}>
              {label}
            </SmallLink>
          )}
        </Text>
        <Text component="dd" m={0} size="xl" fw={700}>
          {value.toLocaleString()}
        </Text>
        {note !== undefined && (
          <Text component="dd" m={0} size="sm">
            {note}
          </Text>
        )}
      </Paper>
    ))}
  </dl>
)
