/** @module What waits since the data were restored from a backup or a copy, with buttons that release or drop it. */
import { Button, Group, Text } from '@mantine/core'
import { useState } from 'react'
import type { OperatorFence } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { DialogFrame } from '../../parts/form.tsx'
import { formatCount } from '../../parts/format.ts'
import { Section } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { useOne } from './queries.ts'

type FenceAction = 'release' | 'drop'

const EFFECTS: Readonly<Record<FenceAction, string>> = {
  release: 'It is sent, although some of it may have been sent before the restore.',
  drop: 'It is cancelled, with events, and its quota is given back. Requests for confirmation, welcomes and imports end, too.',
}

/** Nothing when nothing waits. */
export function Fence({ onDone }: { onDone(message: string): void }) {
  const fence = useOne(read.operator.getFence()).data
  const [action, setAction] = useState<FenceAction>()
  if (!fence) return null
  return (
    <Section title={`Waiting since the ${fence.kind === 'copy' ? 'copy' : 'restore'}`} gap="xs">
      <Text size="sm">
        {describeWaiting(fence)}. It waits since <Time iso={fence.restored_at} />, because it may have been sent before.
      </Text>
      <Group gap="xs">
        <Button variant="default" size="compact-sm" onClick={() => setAction('release')}>
          Release all
        </Button>
        <Button variant="default" size="compact-sm" onClick={() => setAction('drop')}>
          Drop all
        </Button>
      </Group>
      {action !== undefined && (
        <FenceDialog
          action={action}
          fence={fence}
          onClose={(message) => {
            setAction(undefined)
            if (message !== undefined) onDone(message)
          }}
        />
      )}
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

interface FenceDialogProps {
  readonly action: FenceAction
  readonly fence: OperatorFence
  onClose(message?: string): void
}

function FenceDialog({ action, fence, onClose }: FenceDialogProps) {
  const run = useChange(() => (action === 'release' ? releaseAll() : dropAll()), 'operator')
  return (
    <DialogFrame
      title={action === 'release' ? 'Release what waits' : 'Drop what waits'}
      confirm={action === 'release' ? 'Release all' : 'Drop all'}
      isDangerous={action === 'drop'}
      work={run}
      {...(action === 'drop' && { typed: action })}
      onConfirm={() => run.mutate(undefined, { onSuccess: onClose })}
      onClose={() => onClose()}
    >
      <Text>
        {describeWaiting(fence)}. {EFFECTS[action]}
      </Text>
    </DialogFrame>
  )
}

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
