/** @module What both tabs of a webhook share: its name, its state with the reason, what to do, the way between them. */
import { Alert, Group, Stack, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Webhook } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { Page, QueryView, useEscape } from '../../parts/page.tsx'
import { Tabs } from '../../parts/tabs.tsx'
import { Time } from '../../parts/time.tsx'
import { Sentence, WebhookStatus } from './marks.tsx'
import { useDeliveries, useReplayCount, useWebhook } from './queries.ts'
import {
  explainDeactivation,
  explainFailing,
  findLastAttempt,
  findLastFailure,
  toMissedStart,
  toWebhookName,
  toWebhookState,
} from './state.ts'

interface WebhookProps {
  readonly webhook: Webhook
}

interface ActivateProps extends WebhookProps {
  readonly missed: ReturnType<typeof useMissed>
}

interface WebhookFrameProps {
  readonly id: string
  readonly tab: 'deliveries' | 'settings'
  readonly children: (webhook: Webhook) => ReactNode
}

export function WebhookFrame({ id, tab, children }: WebhookFrameProps) {
  const query = useWebhook(id)
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/webhooks' }))
  return (
    <Page title={query.data ? toWebhookName(query.data) : 'Webhook'}>
      <nav aria-label="Path">
        <TextLink to="/webhooks">All webhooks</TextLink>
      </nav>
      <QueryView query={query}>
        {(webhook) => (
          <Stack gap="lg">
            <Summary webhook={webhook} />
            <WebhookNotice webhook={webhook} />
            <Tabs
              label="Pages of the webhook"
              value={tab}
              onChange={(next) =>
                void navigate({
                  to: '/webhooks/$id',
                  params: { id },
                  search: next === 'settings' ? { tab: next } : {},
                })
              }
              tabs={[
                { name: 'deliveries', label: 'Deliveries', panel: tab === 'deliveries' && children(webhook) },
                { name: 'settings', label: 'Settings', panel: tab === 'settings' && children(webhook) },
              ]}
            />
          </Stack>
        )}
      </QueryView>
    </Page>
  )
}

function Summary({ webhook }: WebhookProps) {
  const last = findLastAttempt(webhook)
  return (
    <Stack gap={4}>
      <Group gap="lg">
        <WebhookStatus webhook={webhook} />
        <Text size="sm">
          {last ? (
            <>
              Last delivery {last.isAccepted ? 'accepted' : 'failed'} <Time iso={last.at} />
            </>
          ) : (
            'Nothing was delivered yet'
          )}
        </Text>
        <Text size="sm">{webhook.events.length === 1 ? '1 event' : `${webhook.events.length} events`}</Text>
      </Group>
      <Text size="sm">
        <bdi>{webhook.url}</bdi>
      </Text>
    </Stack>
  )
}

const MAX_SEARCHED = 50

function WebhookNotice({ webhook }: WebhookProps) {
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
  <Alert color="gray" title="This webhook is off" role="group">
    <Stack gap="xs" align="flex-start">
      <Text size="sm">
        Nothing is posted to it. Events of this time are not sent later; after you activate it, you can replay them.
      </Text>
      <Activate webhook={webhook} missed={useMissed(webhook)} />
    </Stack>
  </Alert>
)

function useLastFailure(webhook: Webhook) {
  const { data } = useDeliveries(webhook.id, MAX_SEARCHED)
  return data && findLastFailure(data.data, webhook)
}

function Failing({ webhook }: WebhookProps) {
  const failure = useLastFailure(webhook)
  return (
    <Alert color="yellow" title="Attempts fail" role="group">
      <Text size="sm">
        <Sentence parts={explainFailing(webhook, failure)} /> Attempts without a response, or with a 5xx, are repeated.
      </Text>
    </Alert>
  )
}

function Deactivated({ webhook }: WebhookProps) {
  const failure = useLastFailure(webhook)
  const missed = useMissed(webhook)
  return (
    <Alert color="red" title="This webhook was deactivated, because it failed" role="group">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          <Sentence parts={explainDeactivation(webhook, failure)} />
        </Text>
        <Text size="sm">
          Nothing is posted to it now. Mend the receiver and send it a test event; then activate the webhook.
          {missed !== undefined &&
            missed.deliveries > 0 &&
            ` ${missed.deliveries === 1 ? '1 event was' : `${formatCount(missed.deliveries, 'event')} were`} not delivered and can then be replayed.`}
        </Text>
        <Activate webhook={webhook} missed={missed} />
      </Stack>
    </Alert>
  )
}

/** Events that a webhook missed, because it failed; undefined when that is not known. */
function useMissed(webhook: Webhook) {
  const from = toMissedStart(webhook)
  return useReplayCount(webhook.id, from === undefined ? undefined : { from, undelivered: true }).data
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
      confirm="Activate"
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
