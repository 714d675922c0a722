/** @module Sends the events of a range of time to a webhook again. */
import { Text } from '@mantine/core'
import type { Webhook } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { ReplayDialog, type ReplayRange } from '../../parts/replay-dialog.tsx'
import { toMissedStart } from './state.ts'

const DEFAULT_RANGE_MS = 24 * 60 * 60 * 1000

const toRequest = ({ event, ...range }: ReplayRange) => ({ ...range, ...(event && { events: [event] }) })

interface WebhookReplayProps {
  readonly webhook: Webhook
  onClose(): void
}

export const WebhookReplay = ({ webhook, onClose }: WebhookReplayProps) => (
  <ReplayDialog
    title="Replay a range of time"
    noun="event"
    undelivered={{
      label: 'Only events that were not delivered',
      hint: 'Without those that are still retried. Otherwise your server gets again what it has accepted.',
    }}
    event={{ label: 'Event', options: [{ value: '', label: 'All of this webhook' }, ...webhook.events] }}
    // Since when it may have missed events, if it fails; else a day ago.
    from={toMissedStart(webhook) ?? new Date(Date.now() - DEFAULT_RANGE_MS).toISOString()}
    count={(range) => read.webhooks.countReplay(webhook.id, toRequest(range))}
    refreshes={['webhooks']}
    run={(range) => api.webhooks.replay(webhook.id, toRequest(range))}
    onClose={onClose}
  >
    <Text size="sm">
      The events of this time that the webhook subscribes to are posted again, each as a new delivery.
    </Text>
  </ReplayDialog>
)
