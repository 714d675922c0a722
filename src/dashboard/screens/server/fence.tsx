/** @module What waits since the data were restored from a backup or a copy, with buttons that release or drop it. */
import { Group } from '@mantine/core'
import type { OperatorFence } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import { Section } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { useOne } from './queries.ts'

/** Nothing when nothing waits. */
export function Fence() {
  const fence = useOne(read.operator.getFence()).data
  if (!fence) return null
  const waiting = describeWaiting(fence)
  const shared = { size: 'compact-sm', refreshes: ['operator'], done: (message: string) => message } as const
  return (
    <Section
      title={`Waiting since the ${fence.kind === 'copy' ? 'copy' : 'restore'}`}
      isCard
      description={
        <>
          {waiting}, since <Time iso={fence.restored_at} />: it may have been sent before.
        </>
      }
    >
      <Group gap="xs">
        <ConfirmButton label="Release all" title="Release what waits" isDangerous={false} run={releaseAll} {...shared}>
          {waiting}. It is sent, although some of it may have been sent before the restore.
        </ConfirmButton>
        <ConfirmButton label="Drop all" title="Drop what waits" typed="drop" run={dropAll} {...shared}>
          {waiting}. It is cancelled, with events, and its quota is given back. Requests for confirmation, welcomes and
          imports end, too.
        </ConfirmButton>
      </Group>
    </Section>
  )
}

const describeWaiting = (fence: OperatorFence): string =>
  [
    formatCount(fence.recipients, 'recipient'),
    ...(fence.broadcasts > 0 ? [formatCount(fence.broadcasts, 'broadcast')] : []),
    ...(fence.contact_mails > 0 ? [formatCount(fence.contact_mails, 'mail')] : []),
    ...(fence.imports > 0 ? [formatCount(fence.imports, 'import')] : []),
  ].join(', ')

async function releaseAll(): Promise<string> {
  const { data } = await api.operator.releaseFence({})
  return `Released ${formatCount(data.released, 'recipient')}.`
}

/** Each request drops a limited number. */
async function dropAll(): Promise<string> {
  let dropped = 0
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data } = await api.operator.dropFence({ cursor })
    dropped += data.dropped
    cursor = data.next_cursor
  }
  return `Dropped ${formatCount(dropped, 'recipient')}.`
}
