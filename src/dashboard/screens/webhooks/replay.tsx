/** @module Sends the events of a range of time again; counts them first. */
import { Alert, Checkbox, NativeSelect, Text, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import type { ReplayWebhookRequest, Webhook } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { bindChecked, bindText, DialogFrame, FormError, findFieldError } from '../../parts/form.tsx'
import { formatCount, toLocalMinute } from '../../parts/format.ts'
import { useReplayCount } from './queries.ts'
import { toMissedStart, toRangeEnd, toRangeStart } from './state.ts'

const DEFAULT_RANGE_MS = 24 * 60 * 60 * 1000
const TYPING_MS = 400

interface ReplayDialogProps {
  readonly webhook: Webhook
  onClose(done?: string): void
}

export function ReplayDialog({ webhook, onClose }: ReplayDialogProps) {
  const [from, setFrom] = useState(() => toLocalMinute(toDefaultStart(webhook)))
  const [to, setTo] = useState('')
  const [event, setEvent] = useState('')
  const [isUndelivered, setIsUndelivered] = useState(true)
  const range = toRange({ from, to, event, isUndelivered })
  const [counted] = useDebouncedValue(range, TYPING_MS)
  const count = useReplayCount(webhook.id, counted)
  const replay = useChange((wanted: ReplayWebhookRequest) => api.webhooks.replay(webhook.id, wanted), 'webhooks')
  const isCounting = JSON.stringify(counted) !== JSON.stringify(range) || count.isFetching
  const found = isCounting || count.error ? undefined : count.data
  const fieldError = (field: string) => findFieldError(count.error, field)
  const hasFieldError = ['from', 'to', 'from_seq'].some((field) => fieldError(field) !== undefined)
  const confirm = () => {
    if (!range || found?.from_seq == null || found.to_seq == null) return
    // By position: exactly what was counted.
    const positions = { from_seq: found.from_seq, to_seq: found.to_seq }
    replay.mutate(
      { ...range, ...positions },
      { onSuccess: ({ data }) => onClose(`${formatCount(data.deliveries, 'event')} will be sent again.`) },
    )
  }
  return (
    <DialogFrame
      title="Replay a range of time"
      confirm={found && found.deliveries > 0 ? `Replay ${formatCount(found.deliveries, 'event')}` : 'Replay'}
      work={replay}
      isIncomplete={!found || found.deliveries === 0}
      onConfirm={confirm}
      onClose={() => onClose()}
    >
      <Text size="sm">
        The events of this time that the webhook subscribes to are posted again, each as a new delivery.
      </Text>
      <TextInput
        type="datetime-local"
        label="From"
        description="In the time zone of this browser."
        {...bindText(from, setFrom)}
        error={from === '' ? 'Enter the time of the first event.' : (fieldError('from') ?? fieldError('from_seq'))}
        required
        data-autofocus
      />
      <TextInput
        type="datetime-local"
        label="To"
        description="Empty: until now."
        {...bindText(to, setTo)}
        error={fieldError('to')}
      />
      <NativeSelect
        label="Event"
        {...bindText(event, setEvent)}
        data={[{ value: '', label: 'All of this webhook' }, ...webhook.events]}
      />
      <Checkbox
        {...bindChecked(isUndelivered, setIsUndelivered)}
        label="Only events that were not delivered"
        description="Without those that are still retried. Otherwise your server gets again what it has accepted."
      />
      <div role="status">
        {isCounting && range ? (
          <Text size="sm">Counting…</Text>
        ) : (
          found && (
            <Alert variant="default" p="xs">
              {found.deliveries === 0
                ? `There is no such event in this time.${isUndelivered ? ' Events that are still retried are left out.' : ''}`
                : `${formatCount(found.deliveries, 'event')} will be sent again.`}
            </Alert>
          )
        )}
      </div>
      {!hasFieldError && !isCounting && <FormError error={count.error} />}
    </DialogFrame>
  )
}

/** Since when it may have missed events, if it fails; else a day ago. */
function toDefaultStart(webhook: Webhook): Date {
  const missed = toMissedStart(webhook)
  return missed === undefined ? new Date(Date.now() - DEFAULT_RANGE_MS) : new Date(missed)
}

interface Typed {
  readonly from: string
  readonly to: string
  readonly event: string
  readonly isUndelivered: boolean
}

function toRange({ from, to, event, isUndelivered }: Typed): ReplayWebhookRequest | undefined {
  const first = toRangeStart(from)
  const last = toRangeEnd(to)
  if (first === undefined || (to !== '' && last === undefined)) return undefined
  return {
    from: first,
    undelivered: isUndelivered,
    ...(last !== undefined && { to: last }),
    ...(event && { events: [event] }),
  }
}
