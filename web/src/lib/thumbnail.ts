import type { Shade } from './colours';

export interface Thumbnail {
  values: Float32Array;
  rows: number;
  columns: number;
  shade: Shade;
}

/** Svelte action: one pixel a cell on a canvas; the style sheet makes it larger. */
export function thumbnail(canvas: HTMLCanvasElement, picture: Thumbnail) {
  const draw = ({ values, rows, columns, shade }: Thumbnail) => {
    canvas.width = columns;
    canvas.height = rows;
    const pen = canvas.getContext('2d');
    for (let r = 0; pen && r < rows; r++)
      for (let c = 0; c < columns; c++) {
        pen.fillStyle = shade(values[r * columns + c]);
        pen.fillRect(c, r, 1, 1);
      }
  };
  draw(picture);
  return { update: draw };
}
