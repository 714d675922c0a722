/** @module Dialogs: one that asks first, with the fields that its request needs, and the buttons that open one. */
import { Button, Group, Modal, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useBlocker, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { forget, type Stale } from '../api/data.ts'
import { ActionButton, type ActionProps } from './buttons.tsx'
import { CODE_INPUT } from './fields.ts'
import type { Target } from './filters.ts'
import { bindText, Form, FormError } from './form.tsx'
import { useSay } from './page.tsx'
import { type FormOptions, type FormState, useForm } from './use-form.tsx'

interface DialogFrameProps {
  readonly title: string
  /** Label of the button that does it. */
  readonly confirm: string
  readonly isDangerous?: boolean
  /** What the button starts. */
  readonly work?: { readonly isPending: boolean; readonly error: unknown }
  /** Fields inside that show their errors themselves. */
  readonly fields?: readonly string[]
  readonly isIncomplete?: boolean
  readonly closeOnClickOutside?: boolean
  /** Must be typed before it can be done: a name, or a number. */
  readonly typed?: string
  readonly children: ReactNode
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
  const submit = () => {
    const isTyped = typed === undefined || text.trim().toLowerCase() === typed.toLowerCase()
    setIsWrong(!isTyped)
    if (isTyped && !props.isIncomplete) props.onConfirm()
  }
  return (
    <Modal opened onClose={props.onClose} title={props.title} closeOnClickOutside={props.closeOnClickOutside ?? true}>
      <Form onSubmit={submit} noValidate={false} error={props.work?.error}>
        {props.children}
        {typed !== undefined && (
          <TextInput
            label={`Type ${typed} to confirm`}
            {...bindText(text, setText)}
            error={isWrong && `This is not ${typed}.`}
            {...CODE_INPUT}
            data-autofocus
          />
        )}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={props.onClose}>
            Back
          </Button>
          <Button
            type="submit"
            loading={props.work?.isPending ?? false}
            disabled={props.isIncomplete ?? false}
            {...(props.isDangerous && { color: 'red.8' })}
          >
            {props.confirm}
          </Button>
        </Group>
        <FormError error={props.work?.error} fields={props.fields ?? []} />
      </Form>
    </Modal>
  )
}

interface ConfirmDialogProps<Body, Result>
  extends FormOptions<Body, Result>,
    Omit<DialogFrameProps, 'work' | 'onConfirm' | 'fields' | 'children'> {
  /** What is said on the screen afterwards. */
  readonly done?: string | ((result: Result) => ReactNode)
  /** Whether it is still open afterwards. */
  readonly staysOpen?: boolean
  /** Above the fields. */
  readonly children?: ReactNode
  /** Below the fields. */
  readonly footer?: (form: FormState<NoInfer<Body>>) => ReactNode
  /** Of what it shows, besides that of its request. */
  readonly error?: unknown
  onDone?(result: Result): unknown
}

/** Asks before a request is made, and for what it needs. */
export function ConfirmDialog<Body, Result>(props: ConfirmDialogProps<Body, Result>) {
  const {
    fields: _,
    initial,
    refreshes,
    run,
    done,
    staysOpen = false,
    children,
    footer,
    error,
    onDone,
    ...frame
  } = props
  const form = useForm({ ...props, isFocused: true })
  const { fields, names, show, work, submit } = form
  const say = useSay()
  const finish = (result: Result) => {
    if (done !== undefined) say(typeof done === 'string' ? done : done(result))
    const rest = onDone?.(result)
    if (!staysOpen) frame.onClose()
    return rest
  }
  return (
    <DialogFrame
      {...frame}
      work={{ isPending: work.isPending, error: work.error ?? error }}
      fields={names}
      onConfirm={() => submit(finish)}
    >
      {children}
      {show(fields)}
      {footer?.(form)}
    </DialogFrame>
  )
}

interface DialogButtonProps extends Omit<ActionProps, 'onClick' | 'children'> {
  children(close: () => void): ReactNode
}

export function DialogButton({ children, ...button }: DialogButtonProps) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <>
      <ActionButton {...button} onClick={() => setIsOpen(true)} />
      {isOpen && children(() => setIsOpen(false))}
    </>
  )
}

interface ConfirmButtonProps<Body, Result>
  extends Omit<ConfirmDialogProps<Body, Result>, 'onClose' | 'confirm'>,
    Pick<ActionProps, 'size' | 'variant' | 'color' | 'needs' | 'reason'> {
  readonly label: string
  /** Default: as the label. */
  readonly confirm?: string
  readonly 'aria-label'?: string
}

export function ConfirmButton<Body, Result>(props: ConfirmButtonProps<Body, Result>) {
  const { label, size = 'sm', variant = 'default', color, needs = 'viewer', reason, ...dialog } = props
  const button = { label, size, variant, needs, reason, 'aria-label': props['aria-label'], ...(color && { color }) }
  return (
    <DialogButton {...button}>
      {(close) => <ConfirmDialog isDangerous confirm={label} {...dialog} onClose={close} />}
    </DialogButton>
  )
}

type FormButtonProps<Body, Result> = Omit<ConfirmButtonProps<Body, Result>, 'title' | 'isDangerous' | 'variant'>

/** Makes something of what its dialog, which has its name, asks for. */
export const FormButton = <Body, Result>(props: FormButtonProps<Body, Result>) => (
  <ConfirmButton {...props} title={props.label} isDangerous={false} variant="filled" />
)

interface DeleteButtonProps extends Partial<Omit<ConfirmButtonProps<unknown, unknown>, 'run' | 'onDone'>> {
  /** What it is, such as "domain": button and dialog say so, unless they have words of their own. */
  readonly noun?: string
  /** The lists that it is in. */
  readonly refreshes: readonly Stale[]
  remove(): PromiseLike<unknown>
  /** The screen that takes the place of its own. */
  readonly leadsTo?: Target
  /** Resolves when its screen was left, if it has one. */
  onDeleted?(): unknown
}

export function DeleteButton(allProps: DeleteButtonProps) {
  const { noun = '', remove, leadsTo, onDeleted, ...props } = allProps
  const navigate = useNavigate()
  const queries = useQueryClient()
  return (
    <ConfirmButton
      label="Delete"
      confirm="Delete"
      title={`Delete this ${noun}?`}
      needs="developer"
      {...props}
      run={remove}
      onDone={async () => {
        // Before its screen is left, so that no list shows it again, and of itself after that.
        forget(queries, ...props.refreshes)
        await onDeleted?.()
        if (leadsTo !== undefined) await navigate(leadsTo)
        forget(queries, ...props.refreshes)
      }}
    />
  )
}

interface LeaveGuardProps {
  /** What is lost, as a sentence. */
  readonly text: string
  /** Asked at the moment of leaving. */
  isDirty(): boolean
  /** Whether a change of the query alone leaves the text too. */
  readonly isQueryGuarded?: boolean
}

export function LeaveGuard({ text, isDirty, isQueryGuarded = false }: LeaveGuardProps) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => (isQueryGuarded || current.pathname !== next.pathname) && isDirty(),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <DialogFrame
      title="Leave without saving?"
      confirm="Leave"
      isDangerous
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      {text}
    </DialogFrame>
  )
}
