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

const MAX_TITLE_LENGTH = 200

/** The subject as the title of a screen. */
export function toTitle(subject: string): string {
  if (subject.trim() === '') return '(no subject)'
  const characters = [...subject]
  return characters.length > MAX_TITLE_LENGTH ? `${characters.slice(0, MAX_TITLE_LENGTH).join('')}…` : subject
}
