/** @module The list of webhooks. */
import { Text } from '@mantine/core'
import type { Webhook } from '#client/api.ts'
import { read } from '../api/client.ts'
import { toCurl } from '../parts/commands.ts'
import { NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import type { Column } from '../parts/table.tsx'
import { LastAttempt, WebhookStatus } from './webhooks/marks.tsx'
import { REFRESH_MS } from './webhooks/queries.ts'
import { toWebhookName } from './webhooks/state.ts'

const COLUMNS: readonly Column<Webhook>[] = [
  {
    header: 'Webhook',
    cell: ({ id, url, description }) => (
      <NameLink to="/webhooks/$id" params={{ id }} name={toWebhookName({ description, url })} title={url} />
    ),
  },
  { header: 'Status', width: '9rem', phone: 'aside', cell: (webhook) => <WebhookStatus webhook={webhook} /> },
  {
    header: 'Events',
    width: '24%',
    phone: 'none',
    cell: ({ events }) => <span title={events.join(', ')}>{events.join(', ')}</span>,
  },
  { header: 'Last delivery', width: '14rem', phone: 'bare', cell: (webhook) => <LastAttempt webhook={webhook} /> },
]

export default function WebhooksScreen() {
  const list = useList({ read: read.webhooks.list, refetchInterval: REFRESH_MS })
  return (
    <ListScreen
      title="Webhooks"
      list={list}
      columns={COLUMNS}
      noun="webhook"
      action={
        <ActionLink needs="developer" to="/webhooks/new">
          Add a webhook
        </ActionLink>
      }
      nothing={{
        title: 'No webhook yet',
        text: 'A webhook is a URL of yours. Events are posted to it: an email was delivered, bounced or opened, or mail arrived.',
        children: <Text c="dimmed">Or with an API key:</Text>,
        command: toCurl('/v1/webhooks', {
          url: 'https://your-server.example/webhook',
          events: ['delivered', 'bounced'],
        }),
      }}
    />
  )
}
