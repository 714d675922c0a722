/** @module The cluster: which node leads, what the others do, the log; has the leader give way. Nothing without one. */
import { Text } from '@mantine/core'
import type { OperatorCluster } from '#client/operator-api.ts'
import { api } from '../../api/client.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatBytes, formatCount, formatDuration, toOptions } from '../../parts/format.ts'
import { Facts, Section } from '../../parts/page.tsx'
import { Notice, StateLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import type { State } from '../../parts/tone.ts'

type Node = OperatorCluster['nodes'][number]

const STATES: Readonly<Record<Node['state'], State>> = {
  leading: { tone: 'good', word: 'Leads' },
  following: { tone: 'good', word: 'Follows' },
  copying: { tone: 'active', word: 'Takes a snapshot' },
  lost: { tone: 'bad', word: 'Lost' },
}

const COLUMNS: readonly Column<Node>[] = [
  { header: 'Node', cell: ({ name }) => <bdi>{name}</bdi> },
  { header: 'Status', width: '10rem', cell: ({ state }) => <StateLabel state={STATES[state]} /> },
  {
    header: 'Behind',
    width: '11rem',
    isNumeric: true,
    cell: ({ role, behind, lag_ms: ms }) =>
      role === 'leader' ? '–' : behind === 0 ? 'Nothing' : `${formatCount(behind, 'row')}, ${formatDuration(ms)}`,
  },
  { header: 'Seen', width: '9rem', isNumeric: true, cell: ({ seen_at: at }) => <Time iso={at} hasSeconds /> },
  { header: 'Version', width: '7rem', cell: ({ version }) => <bdi>{version}</bdi> },
  { header: 'Host name', phone: 'none', cell: ({ hostname }) => <bdi>{hostname}</bdi> },
]

export function Cluster({ cluster }: { readonly cluster: OperatorCluster }) {
  const { leader, leader_since: since, last_failover: failover, log, postgres, nodes } = cluster
  const following = nodes.filter(({ state }) => state === 'following').map(({ name }) => name)
  const standbys = postgres.synchronous_standbys
  return (
    <Section title="Cluster" action={<StepDown leader={leader} following={following} />}>
      {following.length === 0 && (
        <Notice tone="warning" title="No standby follows">
          If this node fails, mail stops until it is back.
        </Notice>
      )}
      {postgres.problem !== null && (
        <Notice tone="bad" title="PostgreSQL can lose commits">
          {postgres.problem}
        </Notice>
      )}
      <DataTable label="Nodes" columns={COLUMNS} rows={nodes} isWide toKey={({ name }) => name} />
      <Facts
        facts={[
          ['Leads since', since !== null && <Time key="since" iso={since} isRelative />],
          [
            'Last failover',
            failover ? (
              <>
                <Time iso={failover.at} />, from <bdi>{failover.from}</bdi> to <bdi>{failover.to}</bdi>:{' '}
                {REASONS[failover.reason]}
              </>
            ) : (
              'None'
            ),
          ],
          ['Log', `${formatCount(log.rows, 'row')}, ${formatBytes(log.bytes)} in PostgreSQL`],
          [
            'PostgreSQL',
            `${postgres.version}, ${standbys ?? 'unknown'} synchronous ${standbys === 1 ? 'standby' : 'standbys'}`,
          ],
        ]}
      />
    </Section>
  )
}

const REASONS = { silence: 'it was silent', stop: 'it was stopped', step_down: 'it was asked to' } as const

interface StepDownProps {
  readonly leader: string | null
  readonly following: readonly string[]
}

const StepDown = ({ leader, following }: StepDownProps) => (
  <ConfirmButton
    label="Step down"
    title="Have another node lead?"
    isDangerous={false}
    reason={following.length === 0 ? 'No standby follows.' : undefined}
    done="The node steps down; another one leads in a moment."
    fields={
      following.length > 1
        ? [{ name: 'to', label: 'New leader', kind: 'choice', options: toOptions(following, String, 'The closest') }]
        : []
    }
    refreshes={[['operator', 'getCluster']]}
    run={(body: { to?: string }) => api.operator.stepDownCluster(body)}
  >
    <Text>
      <bdi>{leader}</bdi> stops, {following.length === 1 ? <bdi>{following[0]}</bdi> : 'a standby'} takes over, and{' '}
      <bdi>{leader}</bdi> then follows it. Requests and mail get an answer to try again for about two seconds; nothing
      is lost or sent twice.
    </Text>
  </ConfirmButton>
)
