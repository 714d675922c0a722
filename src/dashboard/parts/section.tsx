/** @module A part of a screen with a heading. */
import { Stack, Title } from '@mantine/core'
import type { ReactNode } from 'react'

export const Section = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <Stack gap="sm" component="section" aria-label={title}>
    <Title order={2} size="h4">
      {title}
    </Title>
    {children}
  </Stack>
)
