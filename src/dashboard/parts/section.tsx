/** @module A part of a screen with a heading. */
import { Stack, type StackProps, Title, type TitleOrder } from '@mantine/core'
import type { ReactNode } from 'react'

interface SectionProps extends StackProps {
  readonly title: string
  /** Id of the heading. */
  readonly id?: string
  /** Level of the heading; default: 2. */
  readonly order?: TitleOrder
  /** Looks of the heading; default: h4. */
  readonly size?: 'h3' | 'h4' | 'h5'
  readonly children: ReactNode
}

export const Section = ({ title, id, order = 2, size = 'h4', children, ...props }: SectionProps) => (
  <Stack gap="sm" component="section" aria-label={title} {...props}>
    <Title order={order} size={size} {...(id !== undefined && { id })}>
      {title}
    </Title>
    {children}
  </Stack>
)
