/** @module Adds an address to the suppression list. */
import { NativeSelect, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useAddSuppression } from '../../api/suppressions.ts'
import { DialogFrame, findFieldError } from '../../parts/form.tsx'
import { KNOWN_REASONS, MANUAL, UNSUBSCRIBE } from './reasons.ts'

const OTHER = 'other'

interface AddDialogProps {
  /** @param message what was done; undefined: nothing */
  onClose(message?: string): void
}

export function AddDialog({ onClose }: AddDialogProps) {
  const [address, setAddress] = useState('')
  const [choice, setChoice] = useState(MANUAL)
  const [ownReason, setOwnReason] = useState('')
  const add = useAddSuppression()
  const addressError = findFieldError(add.error, 'email_address')
  const reasonError = findFieldError(add.error, 'reason')
  return (
    <DialogFrame
      title="Suppress an address"
      confirm="Suppress"
      work={{ isPending: add.isPending, error: addressError || reasonError ? undefined : add.error }}
      isIncomplete={address.trim() === '' || (choice === OTHER && ownReason.trim() === '')}
      onConfirm={() =>
        add.mutate(
          { email_address: address.trim(), reason: choice === OTHER ? ownReason.trim() : choice },
          { onSuccess: ({ email_address: listed }) => onClose(`${listed} is on the suppression list.`) },
        )
      }
      onClose={() => onClose()}
    >
      <TextInput
        label="Address"
        placeholder="bob@example.com"
        inputMode="email"
        value={address}
        onChange={(event) => setAddress(event.currentTarget.value)}
        error={addressError}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        data-autofocus
      />
      <NativeSelect
        label="Reason"
        value={choice}
        onChange={(event) => setChoice(event.currentTarget.value)}
        data={[
          ...Object.entries(KNOWN_REASONS).map(([value, { word }]) => ({ value, label: word })),
          { value: OTHER, label: 'Another text …' },
        ]}
      />
      {choice === OTHER && (
        <TextInput
          label="Text of the reason"
          placeholder="asked by phone"
          value={ownReason}
          onChange={(event) => setOwnReason(event.currentTarget.value)}
          error={reasonError}
          maxLength={200}
        />
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
