/** @module The list of webhooks. */
import { Stack, Text } from '@mantine/core'
import type { Webhook } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useSession } from '../api/session.tsx'
import { toCurl } from '../parts/commands.ts'
import { NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { WebhookStatus } from './webhooks/marks.tsx'
import { REFRESH_MS } from './webhooks/queries.ts'
import { findLastAttempt, toWebhookName } from './webhooks/state.ts'

const COLUMNS: readonly Column<Webhook>[] = [
  {
    header: 'Webhook',
    width: '32%',
    cell: ({ id, url, description }) => (
      <Stack gap={0}>
        <NameLink to="/webhooks/$id" params={{ id }}>
          <bdi>{toWebhookName({ description, url })}</bdi>
        </NameLink>
        <Text size="sm" c="dimmed" lineClamp={1} title={url}>
          <bdi>{url}</bdi>
        </Text>
      </Stack>
    ),
  },
  { header: 'State', width: '18%', cell: (webhook) => <WebhookStatus webhook={webhook} /> },
  {
    header: 'Failures in a row',
    width: '12%',
    cell: ({ failure_count: count }) => count,
  },
  { header: 'Last delivery', width: '20%', cell: (webhook) => <LastAttempt webhook={webhook} /> },
  {
    header: 'Events',
    cell: ({ events }) => (
      <Text size="sm" lineClamp={2} title={events.join(', ')}>
        {events.join(', ')}
      </Text>
    ),
  },
]

function LastAttempt({ webhook }: { readonly webhook: Webhook }) {
  const last = findLastAttempt(webhook)
  if (!last) return <>None yet</>
  return (
    <>
      {last.isAccepted ? 'Accepted' : 'Failed'} <Time iso={last.at} />
    </>
  )
}

export default function WebhooksScreen() {
  const list = useList({ read: read.webhooks.list, refetchInterval: REFRESH_MS })
  const { account } = useSession()
  const add = (
    <ActionLink needs="developer" to="/webhooks/new">
      Add a webhook
    </ActionLink>
  )
  return (
    <ListScreen
      title="Webhooks"
      list={list}
      label="Webhooks, newest first"
      columns={COLUMNS}
      noun="webhook"
      action={add}
      empty={
        <EmptyState
          title="Your webhooks will appear here"
          text={`A webhook is a URL of yours to which the events of ${account.name} are posted: an email was delivered, bounced, opened, or mail arrived. Each request is signed. Here you see every request with the response of your server, and send it again.`}
          command={toCurl('/v1/webhooks', {
            url: 'https://your-server.example/webhook',
            events: ['delivered', 'bounced'],
          })}
        >
          {add}
          <Text size="sm">Or with an API key:</Text>
        </EmptyState>
      }
    />
  )
}
