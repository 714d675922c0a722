/** @module What needs attention, each with its one action. */
import { Alert, Anchor, Stack, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Section } from '../../parts/section.tsx'
import { Time } from '../../parts/time.tsx'
import type { Notice, NoticeAction } from './notices.ts'

export const Attention = ({ notices }: { readonly notices: readonly Notice[] }) => (
  <Section title="Needs attention">
    {notices.length === 0 && <Text>Nothing now. Single bounces are not listed here; the events below have them.</Text>}
    {notices.map((notice) => (
      <NoticeItem key={notice.key} notice={notice} />
    ))}
  </Section>
)

const LEVELS = {
  problem: { colour: 'red', icon: '▲', word: 'Problem' },
  warning: { colour: 'yellow', icon: '■', word: 'Warning' },
} as const

function NoticeItem({ notice: { level, title, text, at, action } }: { readonly notice: Notice }) {
  const { colour, icon, word } = LEVELS[level]
  return (
    <Alert
      color={colour}
      role="group"
      title={`${word}: ${title}`}
      icon={<span aria-hidden="true">{icon}</span>}
      // The tint of an alert leaves too little contrast for its title.
      styles={{ title: { color: 'var(--mantine-color-text)' }, label: { overflow: 'visible', textOverflow: 'clip' } }}
    >
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          {text}
          {at && (
            <>
              {' '}
              {at.label} <Time iso={at.iso} />.
            </>
          )}
        </Text>
        <Action action={action} />
      </Stack>
    </Alert>
  )
}

const Action = ({ action }: { readonly action: NoticeAction }) => (
  <Anchor
    component={Link}
    to={action.to}
    search={(action.search ?? {}) as never}
    size="sm"
    c="inherit"
    underline="always"
  >
    {action.label}
  </Anchor>
)
