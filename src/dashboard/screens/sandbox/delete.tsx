/** @module Asks before captured mail is deleted. */
import { Text } from '@mantine/core'
import { useRef } from 'react'
import { DialogFrame } from '../../parts/form.tsx'
import { useDeleteCaptured } from './queries.ts'

export interface Deletion {
  /** Id of the email; undefined: all captured mail. */
  readonly id: string | undefined
  readonly subject?: string | undefined
}

interface DeleteDialogProps {
  readonly deletion: Deletion
  onClose(): void
  onDeleted(deletion: Deletion): void
}

/** The row beside the one of a message, so that `j` and `k` continue there. */
function findNeighbour(id: string): HTMLElement | null | undefined {
  const row = document.querySelector(`[data-captured="${CSS.escape(id)}"]`)
  return (row?.nextElementSibling ?? row?.previousElementSibling)?.querySelector('a')
}

export function DeleteDialog({ deletion, onClose, onDeleted }: DeleteDialogProps) {
  const { id } = deletion
  const remove = useDeleteCaptured(id)
  const isAll = id === undefined
  const neighbour = useRef<HTMLElement | null>(null)
  return (
    <DialogFrame
      title={isAll ? 'Delete all captured mail?' : 'Delete this captured email?'}
      confirm={isAll ? 'Delete all' : 'Delete'}
      isDangerous
      work={remove}
      onConfirm={() =>
        remove.mutate(undefined, {
          onSuccess() {
            // Before the row is removed.
            neighbour.current = isAll ? null : (findNeighbour(id) ?? null)
            onDeleted(deletion)
          },
        })
      }
      onClose={onClose}
      findNextFocus={() => neighbour.current}
    >
      {deletion.subject && (
        <Text fw={600} lineClamp={3} title={deletion.subject}>
          <bdi>{deletion.subject}</bdi>
        </Text>
      )}
      <Text>
        {isAll
          ? 'Everything that was captured in this account is deleted, whatever the search shows.'
          : 'The captured message is deleted.'}{' '}
        The entries under Emails stay. This cannot be undone.
      </Text>
    </DialogFrame>
  )
}
