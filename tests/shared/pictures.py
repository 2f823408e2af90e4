"""What holds for every picture."""

from matplotlib.backends.backend_agg import FigureCanvasAgg


def assert_nothing_overlaps(figure):
    """No panel, title or legend lies over another, and none runs out of the picture."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
    boxes.append(figure._suptitle.get_window_extent(renderer))
    for i, one in enumerate(boxes):
        assert min(one.x0, figure.bbox.x1 - one.x1) >= -1, "runs out of the picture"
        for other in boxes[i + 1 :]:
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            down = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert min(across, down) < 8, (one, other)
