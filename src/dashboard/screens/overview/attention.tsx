/** @module What needs attention, each with its one action. */
import { Alert, Anchor, Button, Stack, Text, Title } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { WebhookRecord } from '#features/webhooks/webhooks/model.ts'
import { request } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { Time } from '../../parts/time.tsx'
import type { Notice, NoticeAction } from './notices.ts'

export const Attention = ({ notices }: { readonly notices: readonly Notice[] }) => (
  <Stack component="section" gap="sm" aria-labelledby="attention">
    <Title order={2} size="h4" id="attention">
      Needs attention
    </Title>
    {notices.length === 0 && <Text>Nothing now. Single bounces are not listed here; the events below have them.</Text>}
    {notices.map((notice) => (
      <NoticeItem key={notice.key} notice={notice} />
    ))}
  </Stack>
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

function Action({ action }: { readonly action: NoticeAction }) {
  if (action.kind === 'activate') return <Activate label={action.label} webhook={action.webhook} />
  return (
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
}

function Activate({
  label,
  webhook: { id, url, events },
}: {
  readonly label: string
  readonly webhook: WebhookRecord
}) {
  const forbidden = useAllowed('developer')
  const queries = useQueryClient()
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => request('PUT', `/v1/webhooks/${id}`, { body: { url, events, is_active: true } }),
    onSuccess: () => queries.invalidateQueries(),
  })
  return (
    <>
      <Button
        size="xs"
        variant="default"
        loading={isPending}
        disabled={forbidden !== undefined}
        onClick={() => mutate()}
      >
        {label}
      </Button>
      {forbidden && <Text size="sm">{forbidden}</Text>}
      {error && (
        <Text size="sm" role="alert">
          {error.message}
        </Text>
      )}
    </>
  )
}
