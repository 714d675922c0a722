/**
 * @module An editor of HTML, JSON or text with line numbers, undo, search and marks at wrong lines. Its script is
 * loaded when one is first shown.
 */
import { Anchor, Input, Skeleton, Text, useComputedColorScheme } from '@mantine/core'
import { useEffect, useId, useRef, useState } from 'react'
import type { CodeLanguage, CodeProblem, Editor } from './code-editor/editor.ts'

interface CodeEditorProps {
  /** Names the text for everyone. */
  readonly label: string
  readonly value: string
  /** Undefined: the text cannot be changed. */
  readonly onChange?: ((text: string) => void) | undefined
  readonly language: CodeLanguage
  /** Marked at their lines, and listed below the text. Marks move with their lines until other problems are passed. */
  readonly problems?: readonly CodeProblem[]
  readonly description?: string
  /** Whether only screen readers get the label, because a tab above has the same. */
  readonly isLabelHidden?: boolean
}

export function CodeEditor(props: CodeEditorProps) {
  const { label, onChange, description, problems = NO_PROBLEMS } = props
  const id = useId()
  const goToLine = useRef<(line: number) => void>(undefined)
  return (
    <div className="code-field">
      {!props.isLabelHidden && (
        <Input.Label id={`${id}-label`} labelElement="div">
          {label}
        </Input.Label>
      )}
      {description !== undefined && <Input.Description>{description}</Input.Description>}
      <EditorBox {...props} problems={problems} hintId={`${id}-hint`} goToLine={goToLine} />
      <Text size="sm" c="dimmed" id={`${id}-hint`}>
        {onChange
          ? 'Tab leaves the editor, Ctrl ] indents, Ctrl F searches, Ctrl Z takes back.'
          : 'Tab leaves the text, Ctrl F searches.'}
      </Text>
      <div role="status">
        {problems.map(({ line, message }) => (
          <Text size="sm" className="code-problem" key={`${line} ${message}`}>
            {line !== undefined && (
              <Anchor
                component="button"
                type="button"
                size="sm"
                underline="always"
                onClick={() => goToLine.current?.(line)}
              >
                Line {line}
              </Anchor>
            )}{' '}
            <bdi>{message}</bdi>
          </Text>
        ))}
      </div>
    </div>
  )
}

const NO_PROBLEMS: readonly CodeProblem[] = []

interface EditorBoxProps extends CodeEditorProps {
  readonly problems: readonly CodeProblem[]
  readonly hintId: string
  readonly goToLine: { current: ((line: number) => void) | undefined }
}

function EditorBox(props: EditorBoxProps) {
  const { label, value, onChange, language, problems, hintId, goToLine } = props
  const parent = useRef<HTMLDivElement>(null)
  const editor = useRef<Editor>(undefined)
  const [state, setState] = useState<'loading' | 'ready' | 'failed'>('loading')
  const isDark = useComputedColorScheme() === 'dark'
  const isReadOnly = onChange === undefined
  const latest = useRef(props)
  latest.current = props
  // The editor is made once for each language; everything else is passed to it below.
  useEffect(() => {
    let isGone = false
    // What is passed below is passed to each new editor.
    setState('loading')
    import('./code-editor/editor.ts').then(
      ({ createEditor }) => {
        if (isGone || !parent.current) return
        editor.current = createEditor(parent.current, {
          text: latest.current.value,
          language,
          isReadOnly,
          isDark: document.documentElement.dataset['mantineColorScheme'] === 'dark',
          attributes: { 'aria-label': label, 'aria-describedby': hintId, tabindex: '0' },
          onChange: (text) => latest.current.onChange?.(text),
        })
        setState('ready')
      },
      () => setState('failed'),
    )
    return () => {
      isGone = true
      editor.current?.destroy()
      editor.current = undefined
    }
  }, [language, isReadOnly, label, hintId])
  const isReady = state === 'ready'
  goToLine.current = (line) => editor.current?.goToLine(line)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new editor needs them too
  useEffect(() => {
    editor.current?.setText(value)
  }, [value, isReady])
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  useEffect(() => {
    editor.current?.setProblems(problems)
  }, [problems, isReady])
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  useEffect(() => {
    editor.current?.setDark(isDark)
  }, [isDark, isReady])
  return (
    <>
      {state === 'loading' && <Skeleton height={200} />}
      {state === 'failed' && <Text role="alert">The editor could not be loaded. Reload the page.</Text>}
      <div ref={parent} className="code-editor" hidden={!isReady} />
    </>
  )
}
