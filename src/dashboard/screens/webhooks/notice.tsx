/** @module What is wrong with a webhook, why, and what to do; activates it; sends a test event and waits for its outcome. */
import { Text } from '@mantine/core'
import { useState } from 'react'
import type { Webhook, WebhookDelivery } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData, usePage } from '../../api/data.ts'
import { ActionButton } from '../../parts/buttons.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { FormError } from '../../parts/form.tsx'
import { formatCount, formatDuration } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { Notice } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { toRefreshMs, useDelivery } from './marks.tsx'
import { findLastFailure, toFailureWords, toMissedStart, toWebhookState } from './state.ts'

interface WebhookProps {
  readonly webhook: Webhook
}

interface ActivateProps extends WebhookProps {
  readonly missed: ReturnType<typeof useMissed>
}

const MAX_SEARCHED = 50
/** Counting reads many events. */
const COUNT_STALE_MS = 30_000

export function WebhookNotice({ webhook }: WebhookProps) {
  switch (toWebhookState(webhook)) {
    case 'deactivated':
      return <Deactivated webhook={webhook} />
    case 'off':
      return <Off webhook={webhook} />
    case 'failing':
      return <Failing webhook={webhook} />
    case 'active':
      return null
  }
}

const Off = ({ webhook }: WebhookProps) => (
  <Notice title="This webhook is off" action={<Activate webhook={webhook} missed={useMissed(webhook)} />}>
    Nothing is posted to it. You can replay the events of this time once it is active.
  </Notice>
)

/** How often it failed since when, the last response, and the last success. */
function Failures({ webhook }: WebhookProps) {
  const { failure_count: count, failing_since: since, last_success_at: success } = webhook
  const searched = read.webhooks.listDeliveries(webhook.id, { per_page: MAX_SEARCHED })
  const { data } = usePage(searched, { refetchInterval: toRefreshMs })
  const failure = data && findLastFailure(data.data, webhook)
  return (
    <>
      {formatCount(count, 'attempt')} in a row failed
      {since !== null && <Time before=", since " iso={since} />}
      {failure && `; ${toFailureWords(failure)}`}.{' '}
      {success === null ? (
        'No attempt has succeeded yet.'
      ) : (
        <Time before="The last success was at " iso={success} after="." />
      )}{' '}
    </>
  )
}

const Failing = ({ webhook }: WebhookProps) => (
  <Notice tone="warning" title="Attempts fail">
    <Failures webhook={webhook} />
    After 10 failed attempts in a row it is deactivated. Attempts without a response, or with a 5xx, are repeated.
  </Notice>
)

function Deactivated({ webhook }: WebhookProps) {
  const missed = useMissed(webhook)
  const count = missed?.deliveries ?? 0
  return (
    <Notice
      tone="bad"
      title="This webhook was deactivated, because it failed"
      action={<Activate webhook={webhook} missed={missed} />}
    >
      <Failures webhook={webhook} />
      {count > 0 &&
        `${formatCount(count, 'event')} ${count === 1 ? 'was' : 'were'} not delivered, with those since it was deactivated. `}
      Repair your server, send it a test event, then activate the webhook.
    </Notice>
  )
}

/** Events that a webhook missed, because it failed; undefined when that is not known. */
function useMissed(webhook: Webhook) {
  const from = toMissedStart(webhook)
  const missed = read.webhooks.countReplay(webhook.id, { from, undelivered: true })
  return useData(missed, { enabled: from !== undefined, staleTime: COUNT_STALE_MS }).data
}

function Activate({ webhook: { id, url, events }, missed }: ActivateProps) {
  const { from_seq: from, to_seq: to, deliveries: count = 0 } = missed ?? {}
  const activate = async ({ replay = false }: { readonly replay?: boolean }) => {
    await api.webhooks.update(id, { url, events, is_active: true })
    if (!replay || from == null || to == null) return 0
    // By position: what happens after the activation is sent anyway.
    const replayed = await api.webhooks.replay(id, { from_seq: from, to_seq: to, undelivered: true })
    return replayed.data.deliveries
  }
  return (
    <ConfirmButton
      label="Activate"
      variant="filled"
      size="xs"
      needs="developer"
      title="Activate this webhook?"
      isDangerous={false}
      fields={
        count === 0
          ? []
          : [
              {
                name: 'replay',
                label: `Also replay ${formatCount(count, 'event')} that ${count === 1 ? 'was' : 'were'} not delivered`,
                kind: 'check',
                hint: 'Each becomes a new delivery.',
              },
            ]
      }
      initial={{ replay: true }}
      refreshes={['webhooks']}
      run={activate}
      done={(replayed) =>
        `The webhook is active.${replayed > 0 ? ` ${formatCount(replayed, 'event')} will be sent again.` : ''}`
      }
    >
      <Text>
        Events from now on are posted to <bdi>{url}</bdi>.
      </Text>
      {count === 0 && (
        <Text size="sm">Events of the time without it are not sent; you can replay a range of time afterwards.</Text>
      )}
    </ConfirmButton>
  )
}

/** The button, and what is shown of the outcome. */
export function useTestEvent(id: string) {
  const [deliveryId, setDeliveryId] = useState<string>()
  const test = useChange(() => api.webhooks.test(id), 'webhooks')
  return {
    button: (
      <ActionButton
        needs="developer"
        variant="default"
        loading={test.isPending}
        onClick={() => test.mutate(undefined, { onSuccess: ({ data }) => setDeliveryId(data.delivery_id) })}
        label="Send a test event"
      />
    ),
    outcome: (test.error || deliveryId !== undefined) && (
      <div role="status">
        <FormError error={test.error} />
        {deliveryId !== undefined && <Outcome key={deliveryId} id={id} deliveryId={deliveryId} />}
      </div>
    ),
  }
}

function Outcome({ id, deliveryId }: { readonly id: string; readonly deliveryId: string }) {
  const { data, error } = useDelivery(id, deliveryId)
  if (!data) return error ? <FormError error={error} /> : <Notice tone="waiting">The test event is being sent…</Notice>
  return (
    <Notice
      tone={data.status === 'delivered' ? 'good' : data.status === 'pending' ? 'waiting' : 'bad'}
      action={
        <TextLink to="/webhooks/$id/deliveries/$deliveryId" params={{ id, deliveryId }}>
          See the request and the response
        </TextLink>
      }
    >
      {toWords(data)}
    </Notice>
  )
}

function toWords({ status, status_code: code, duration_ms: ms, error }: WebhookDelivery): string {
  if (status === 'pending') return 'The test event is being sent…'
  if (status === 'delivered') return `Your server accepted the test event with ${code} in ${formatDuration(ms)}.`
  return `The test event failed. ${error ?? ''}`
}
