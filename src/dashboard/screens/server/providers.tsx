/** @module The receiving providers: limits, rates, suspensions with reason and end; resumes them, and acts on their mail. */
import { Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorProvider } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { TextLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { DeliveryAlerts } from './alerts.tsx'
import { ServerFrame } from './frame.tsx'
import { REFRESHED } from './queries.ts'
import { QueueActions } from './queue-actions.tsx'

const route = getRouteApi('/server/providers')

const COLUMNS: readonly Column<OperatorProvider>[] = [
  {
    header: 'Provider',
    width: '20%',
    cell: ({ provider, source }) => (
      <>
        <TextLink to="/server/providers" search={{ provider }}>
          <bdi>{provider}</bdi>
        </TextLink>
        {source !== null && (
          <Text size="sm" c="dimmed">
            from {source}
          </Text>
        )}
      </>
    ),
  },
  {
    header: 'Limits',
    width: '22%',
    cell: ({ limits, rate_per_minute: rate, rate_factor: factor }) =>
      `${limits.connections} connections; ${rate === null ? 'any number' : rate.toLocaleString()} a minute${factor < 1 ? `, slowed to ${Math.max(1, Math.round(factor * 100))} %` : ''}`,
  },
  {
    header: 'Last hour',
    width: '20%',
    cell: ({ last_hour: hour }) =>
      `${hour.accepted.toLocaleString()} accepted, ${hour.deferred.toLocaleString()} deferred, ${hour.refused.toLocaleString()} refused`,
  },
  { header: 'State', cell: (row) => <State row={row} /> },
]

function State({ row }: { readonly row: OperatorProvider }) {
  const { suspension, rate_factor: factor, warm_up: warmUp, waiting_lanes: waiting } = row
  return (
    <Stack gap={2}>
      {suspension ? (
        <>
          <StatusLabel tone="bad">Suspended</StatusLabel>
          <Text size="sm">
            Next attempt <Time iso={suspension.until} />, by the rule {suspension.rule}
          </Text>
          <Text size="sm" lineClamp={3} style={{ overflowWrap: 'anywhere' }}>
            <bdi>{suspension.reason}</bdi>
          </Text>
        </>
      ) : factor < 1 ? (
        <StatusLabel tone="warning">Slowed down</StatusLabel>
      ) : (
        <StatusLabel tone="good">At its limits</StatusLabel>
      )}
      {warmUp && (
        <Text size="sm">
          Warm-up: {warmUp.used.toLocaleString()} of {warmUp.budget.toLocaleString()} messages of the day
        </Text>
      )}
      {waiting > 0 && <Text size="sm">{waiting.toLocaleString()} destinations wait</Text>}
    </Stack>
  )
}

export default function ProvidersScreen() {
  const { provider } = route.useSearch()
  const list = useList({
    read: read.operator.listProviders,
    toKey: (row) => `${row.provider} ${row.source}`,
    ...REFRESHED,
  })
  return (
    <ListScreen
      frame={ServerFrame}
      title="Providers"
      list={list}
      label="Providers, the suspended ones first"
      columns={COLUMNS}
      isWide
      noun="provider"
      empty={<Text>No mail was sent to a provider yet.</Text>}
      above={
        <Stack gap="xs">
          <DeliveryAlerts />
          {provider !== undefined && (
            <Stack gap="xs" component="section" aria-label="The chosen provider">
              <Text fw={600} style={{ overflowWrap: 'anywhere' }}>
                <bdi>{provider}</bdi>
              </Text>
              <QueueActions selector={{ provider }} />
              <Resume provider={provider} />
            </Stack>
          )}
        </Stack>
      }
    />
  )
}

const Resume = ({ provider }: { readonly provider: string }) => (
  <div>
    <ConfirmButton
      label="Resume"
      variant="filled"
      size="compact-sm"
      title="Resume this provider?"
      confirm="Resume"
      isDangerous={false}
      done={`${provider} is back to its limits.`}
      refreshes={['operator']}
      run={() => api.operator.resumeProvider(provider)}
    >
      <Text style={{ overflowWrap: 'anywhere' }}>
        Suspensions and lowered rates of <bdi>{provider}</bdi> end, and its mail that is due is tried now. If it is
        rejected again, the suspension begins again.
      </Text>
    </ConfirmButton>
  </div>
)
