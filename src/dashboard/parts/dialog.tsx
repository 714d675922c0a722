/** @module A dialog that asks before something is done. */
import { Button, Group, Modal, Stack, TextInput } from '@mantine/core'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { ActionButton } from './action.tsx'
import { FormError } from './form-error.tsx'

interface DialogFrameProps {
  readonly title: string
  /** Label of the button that does it. */
  readonly confirm: string
  readonly isDangerous?: boolean
  /** What the button starts. */
  readonly work?: { readonly isPending: boolean; readonly error: unknown }
  /** Whether something is still to be filled in. */
  readonly isIncomplete?: boolean
  /** Must be typed before it can be done: a name, or a number. */
  readonly typed?: string
  readonly children: ReactNode
  /** Another button. */
  readonly extra?: ReactNode
  onConfirm(): void
  onClose(): void
  /** Called when the dialog is removed: what gets the focus; by default the element that opened it. */
  findNextFocus?(): HTMLElement | null | undefined
}

/** Moves the focus after the dialog: it is unmounted at once, without its closing steps. */
function useFocusReturn(findNext: (() => HTMLElement | null | undefined) | undefined): void {
  const [opener] = useState(() => document.activeElement)
  const latest = useRef(findNext)
  latest.current = findNext
  useEffect(
    () => () => {
      const next = latest.current?.() ?? opener
      setTimeout(() => next instanceof HTMLElement && next.isConnected && next.focus())
    },
    [opener],
  )
}

/** Stays open, with what was typed, when the action fails. */
export function DialogFrame(props: DialogFrameProps) {
  const [text, setText] = useState('')
  const { typed } = props
  useFocusReturn(props.findNextFocus)
  const [isWrong, setIsWrong] = useState(false)
  return (
    <Modal opened onClose={props.onClose} title={props.title} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          const isTyped = typed === undefined || text.trim().toLowerCase() === typed.toLowerCase()
          setIsWrong(!isTyped)
          if (isTyped && !props.isIncomplete) props.onConfirm()
        }}
      >
        <Stack>
          {props.children}
          {typed !== undefined && (
            <TextInput
              label={`Type ${typed} to confirm`}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
              error={isWrong && `This is not ${typed}.`}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              data-autofocus
            />
          )}
          <FormError error={props.work?.error} />
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={props.onClose}>
              Back
            </Button>
            {props.extra}
            <Button
              type="submit"
              loading={props.work?.isPending ?? false}
              disabled={props.isIncomplete ?? false}
              {...(props.isDangerous && { color: 'red.8' })}
            >
              {props.confirm}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  )
}

interface DeleteButtonProps extends Omit<DialogFrameProps, 'isDangerous' | 'onClose'> {
  readonly label: string
  /** Why nothing can be deleted now. */
  readonly reason: string | undefined
  readonly size?: 'xs' | 'sm'
}

/** A button with a dialog that asks before something is deleted. */
export function DeleteButton({ label, reason, size = 'sm', ...dialog }: DeleteButtonProps) {
  const [isAsking, setIsAsking] = useState(false)
  return (
    <>
      <ActionButton size={size} variant="default" reason={reason} onClick={() => setIsAsking(true)}>
        {label}
      </ActionButton>
      {isAsking && <DialogFrame {...dialog} isDangerous onClose={() => setIsAsking(false)} />}
    </>
  )
}
