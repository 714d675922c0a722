/** @module Takes an address off the suppression list, after what that means. */
import { List, Text } from '@mantine/core'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { ConfirmDialog, DialogButton } from '../../parts/dialog.tsx'
import { LoadingState } from '../../parts/page.tsx'
import { Notice } from '../../parts/status.tsx'
import { describeScope, findReason, isErased, listWarnings } from './reasons.ts'

interface RemoveProps {
  readonly address: string
  onDone?(): unknown
}

const toName = (address: string): string => (isErased(address) ? 'an erased person' : address)

interface RemoveButtonProps extends RemoveProps {
  readonly label?: string
  readonly size?: 'compact-sm' | 'xs'
}

export const RemoveSuppression = ({ label = 'Remove suppression', size = 'xs', ...props }: RemoveButtonProps) => (
  <DialogButton
    label={label}
    size={size}
    {...(size === 'xs' ? { variant: 'default' } : { variant: 'subtle', color: 'gray' })}
    needs="support"
    aria-label={label === 'Remove' ? `Remove ${toName(props.address)}` : `${label}: ${toName(props.address)}`}
  >
    {(close) => <RemoveDialog {...props} onClose={close} />}
  </DialogButton>
)

export function RemoveDialog({ address, onDone, onClose }: RemoveProps & { onClose(): void }) {
  const suppressions = useData(read.suppressions.list({ email: address, per_page: 100 }), { staleTime: 0 })
  const rows = suppressions.data ?? []
  const warnings = listWarnings(rows)
  const name = toName(address)
  return (
    <ConfirmDialog
      title="Send mail to this address again?"
      confirm="Remove suppression"
      isDangerous={warnings.length > 0}
      error={suppressions.error}
      isIncomplete={suppressions.data === undefined}
      refreshes={['suppressions', 'emails', 'people']}
      run={() => api.suppressions.delete(address)}
      done={`${name} may get mail again. Suppressed emails are not sent by themselves.`}
      {...(onDone && { onDone })}
      onClose={onClose}
    >
      <Text fw={600}>
        <bdi>{name}</bdi>
      </Text>
      {suppressions.isPending ? (
        <LoadingState rows={1} />
      ) : (
        <>
          <Text>{rows.length === 1 ? 'This is removed:' : 'All suppressions of the address are removed:'}</Text>
          <List size="sm">
            {rows.map((row) => (
              <List.Item key={row.id}>
                <bdi>{findReason(row.reason)?.word ?? row.reason}</bdi>: {describeScope(row)}
              </List.Item>
            ))}
          </List>
        </>
      )}
      {warnings.map((warning) => (
        <Notice key={warning} tone="warning">
          {warning}
        </Notice>
      ))}
      <Text size="sm">Contacts that were stopped by this become active again.</Text>
    </ConfirmDialog>
  )
}
