/** @module Adds an address to the suppression list. */
import { NativeSelect, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { bindText, CODE_INPUT, DialogFrame, useFields } from '../../parts/form.tsx'
import { MANUAL, OTHER, OTHER_OPTION, REASON_OPTIONS, UNSUBSCRIBE } from './reasons.ts'

interface AddDialogProps {
  /** @param message what was done; undefined: nothing */
  onClose(message?: string): void
}

export function AddDialog({ onClose }: AddDialogProps) {
  const [choice, setChoice] = useState(MANUAL)
  const add = useChange(api.suppressions.create, 'suppressions')
  const { values, field, fields } = useFields({ email_address: '', reason: '' }, add.error)
  const address = values.email_address.trim()
  const reason = choice === OTHER ? values.reason.trim() : choice
  return (
    <DialogFrame
      title="Suppress an address"
      confirm="Suppress"
      work={add}
      fields={fields}
      isIncomplete={address === '' || reason === ''}
      onConfirm={() =>
        add.mutate(
          { email_address: address, reason },
          { onSuccess: ({ data }) => onClose(`${data.email_address} is on the suppression list.`) },
        )
      }
      onClose={() => onClose()}
    >
      <TextInput
        {...field('email_address')}
        label="Address"
        placeholder="bob@example.com"
        inputMode="email"
        {...CODE_INPUT}
        data-autofocus
      />
      <NativeSelect label="Reason" {...bindText(choice, setChoice)} data={[...REASON_OPTIONS, OTHER_OPTION]} />
      {choice === OTHER && (
        <TextInput {...field('reason')} label="Text of the reason" placeholder="asked by phone" maxLength={200} />
      )}
      <Text size="sm">
        {choice === UNSUBSCRIBE
          ? 'Stops only mail that is not transactional; receipts and new passwords still arrive.'
          : 'Stops all mail of this account to the address, until you remove it from the list.'}{' '}
        If it is on the list already, its reason stays.
      </Text>
    </DialogFrame>
  )
}
